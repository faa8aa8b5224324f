"""The workflows of the simulation: one interpreter that follows a plan, with steps of every effect."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import outlast
from outlast import Call, DidNotHappen, Happened, Retry, Unknown, step, workflow
from outlast.core.effects import InStep
from outlast.core.identity import here
from tests.simulation.world import Declined, NotSent, receipt

if TYPE_CHECKING:
    from tests.simulation.loop import SimLoop
    from tests.simulation.process import Process

Plan = list[Any]


class Flaky(Exception):
    """An attempt that fails as planned."""


def _process() -> Process:
    return cast("SimLoop", asyncio.get_running_loop()).process


def _begin() -> tuple[Process, InStep]:
    process, place = _process(), here.get()
    assert isinstance(place, InStep)
    process.world.begins(process, place)
    return process, place


async def _work(process: Process) -> None:
    await asyncio.sleep(process.sim.delay(process.world.rough.mean_s))


@step(name="sim_think", effect="pure", retry=Retry(attempts=4, initial=0.2, jitter=0.5))
async def think(n: int, fails: int) -> int:
    process, place = _begin()
    await _work(process)
    if place.attempt <= fails:
        raise Flaky(f"attempt {place.attempt} of {n}")
    return n * 3 + 1


@step(name="sim_page", effect="pure")
async def page(n: int) -> list[int]:
    """Return a list that the process goes on changing."""
    process, _ = _begin()
    for old in process.pages:
        old.append(-1)
    process.pages.append([n, n + 1])
    return process.pages[-1]


@step(name="sim_echo", effect="pure")
async def echo(text: str) -> str:
    process, _ = _begin()
    await _work(process)
    return text


@step(name="sim_fail", effect="pure")
async def fail(n: int) -> None:
    process, _ = _begin()
    await _work(process)
    raise ValueError(f"no {n}")


@step(name="sim_put", timeout=3.0, retry=Retry(attempts=200, initial=0.1, factor=1.3, max_delay=1.0))
async def put(n: int) -> str:
    """Have something applied; every third one takes its time to give up when it is cancelled."""
    process, place = _begin()
    try:
        return cast("str", await process.world.request(process, place, "put", n))
    except asyncio.CancelledError:
        if n % 3 == 0:
            await asyncio.sleep(0.5)
        raise


async def find(key: str, n: int) -> Happened | DidNotHappen | Unknown:
    happened = await _process().world.ask(key)
    if happened is None:
        return Unknown()
    return Happened(receipt("charge", n)) if happened else DidNotHappen()


ONCE = {"effect": "once", "timeout": 5.0, "settle": 3.0}
AGAIN = Retry(attempts=200, initial=0.1, factor=1.3, max_delay=1.0, on=NotSent)


@step(name="sim_charge", confirm=find, definite=Declined, retry=AGAIN, **ONCE)  # type: ignore[call-overload]
async def charge(n: int) -> str:
    process, place = _begin()
    return cast("str", await process.world.request(process, place, "charge", n))


@step(name="sim_letter", retry=AGAIN, **ONCE)  # type: ignore[call-overload]
async def letter(n: int) -> str:
    process, place = _begin()
    return cast("str", await process.world.request(process, place, "letter", n))


def call_of(plan: Plan) -> Call[Any]:
    """Return what a customer starts: the interpreter, or, for a plan of one leaf, its step alone."""
    match plan:
        case ["think", n, fails]:
            return think(n, fails)
        case ["put", n]:
            return put(n)
        case ["letter", n]:
            return letter(n)
        case _:
            return script(plan)


@workflow(name="sim_script")
async def script(plan: Plan) -> Any:
    """Follow a plan; see `plans.py` for what one may hold and what it comes to."""
    return await follow(plan)


async def follow(plan: Plan) -> Any:
    match plan:
        case ["think", n, fails]:
            return await think(n, fails)
        case ["page", n]:
            return await page(n)
        case ["put", n]:
            return await put(n)
        case ["charge", n]:
            try:
                return await charge(n)
            except Declined:
                return "declined"
        case ["letter", n]:
            return await letter(n)
        case ["fail", n]:
            return await fail(n)
        case ["draw"]:
            token = f"{outlast.uuid4()} {outlast.random()}"
            return await echo(token) == token
        case ["sleep", seconds]:
            before = outlast.now()
            await asyncio.sleep(seconds)
            return (outlast.now() - before).total_seconds() >= seconds - 1e-4
        case _:
            return await follow_many(plan)


async def follow_many(plan: Plan) -> Any:
    match plan:
        case ["seq", *parts]:
            return [await follow(part) for part in parts]
        case ["gather", *parts]:
            return await asyncio.gather(*(follow(part) for part in parts))
        case ["group", *parts]:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(follow(part)) for part in parts]
            return [task.result() for task in tasks]
        case ["pool", *parts]:
            return await pool(parts)
        case ["race", first, second]:
            return await race(first, second)
        case ["calls", n]:
            return await asyncio.gather(think(n, 0), put(n), letter(n))
        case ["start", first, second]:
            child = await outlast.start(script(first))
            beside = await follow(second)
            return [await child.result(), beside]
        case ["leave", first, second]:
            left = asyncio.create_task(follow(first))
            try:
                return await follow(second)
            finally:
                del left  # it is cancelled when the body has returned
        case _:
            return await follow_one(plan)


async def follow_one(plan: Plan) -> Any:
    match plan:
        case ["hurry", seconds, part]:
            try:
                async with asyncio.timeout(seconds):
                    return await follow(part)
            except TimeoutError:
                return "late"
        case ["limit", seconds, part]:
            try:
                return await asyncio.wait_for(follow(part), seconds)
            except TimeoutError:
                return "late"
        case ["child", part]:
            return await script(part)
        case ["catch", part]:
            try:
                return await follow(part)
            except (ValueError, outlast.StepError) as error:
                return f"caught {error}"
        case ["finally", part, n]:
            try:
                return await follow(part)
            finally:
                await put(n)
        case _:
            raise AssertionError(f"no such plan: {plan}")


async def pool(parts: list[Plan]) -> list[Any]:
    """Two at a time."""
    room = asyncio.Semaphore(2)

    async def one(part: Plan) -> Any:
        async with room:
            return await follow(part)

    return await asyncio.gather(*(one(part) for part in parts))


async def race(first: Plan, second: Plan) -> list[Any]:
    """Take what is there first, and give the other up."""
    tasks = [asyncio.create_task(follow(first)), asyncio.create_task(follow(second))]
    done, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    winner = tasks[0] if tasks[0] in done else tasks[1]
    return [tasks.index(winner), winner.result()]
