"""Native workflows: their bodies run among real I/O, and their steps are recorded all the same."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import random
import threading
from typing import Any

import pytest

import outlast
from outlast import step, workflow
from outlast.core import native_engine
from outlast.core.native_scopes import replayed
from tests.behaviour.flows import executed
from tests.behaviour.stage import Door, Ears, OpenApp, Restart, stuck


@step(effect="pure")
async def ask(what: Any) -> Any:
    executed.append(f"ask {what}")
    return f"answer to {what}"


@step
def work(what: Any) -> str:
    executed.append(f"work {what}")
    return outlast.idempotency_key()


async def io() -> None:
    """Real I/O, on the worker's loop, which takes no fixed time."""
    reader, writer = await asyncio.open_connection(sock=_pair())
    writer.close()
    await reader.read()
    for _ in range(random.randrange(3)):
        await asyncio.sleep(0)


def _pair() -> Any:
    import socket  # noqa: PLC0415

    one, other = socket.socketpair()
    other.close()
    return one


async def test_a_body_does_io_and_its_recorded_steps_are_not_done_again(restart: Restart) -> None:
    @workflow(loop="native")
    async def native() -> list[Any]:
        await io()
        first = await ask(1)
        await io()
        second = await work.call(2)
        await restart.point()
        await io()
        return [first, second, await ask(3)]

    result = await restart.result(native())
    assert result[0] == "answer to 1"
    assert result[2] == "answer to 3"
    assert executed == ["ask 1", "work 2", "ask 3"]


async def test_calls_that_come_in_another_order_find_their_own_records(restart: Restart) -> None:
    """Steps of one name are told apart by their arguments, and so is what keeps their effects apart: their keys."""
    passes: list[list[int]] = []

    @workflow(loop="native")
    async def native() -> dict[int, str]:
        order = list(range(6)) if not passes else list(reversed(range(6)))
        passes.append(order)
        found = dict(zip(order, await asyncio.gather(*(work.call(n) for n in order)), strict=True))
        await restart.point()
        return {n: found[n] for n in range(6)}

    found = await restart.result(native())
    assert len(passes) == 2
    assert len(set(found.values())) == 6
    assert sorted(executed) == [f"work {n}" for n in range(6)]


async def test_outcomes_are_given_in_their_recorded_order(restart: Restart) -> None:
    door = Door()

    @step
    async def slow() -> str:
        await door.passed()
        return "slow"

    @workflow(loop="native")
    async def native() -> list[str]:
        first, second = asyncio.create_task(_named(slow())), asyncio.create_task(_named(ask("quick")))
        done, _ = await asyncio.wait([first, second], return_when=asyncio.FIRST_COMPLETED)
        door.open()
        winner = next(iter(done)).result()
        both = await asyncio.gather(first, second)
        await restart.point()
        return [winner, *both]

    assert await restart.result(native()) == ["answer to quick", "slow", "answer to quick"]


async def _named(call: Any) -> Any:
    return await call


async def test_steps_called_in_threads_are_recorded(restart: Restart) -> None:
    @workflow(loop="native")
    async def native() -> list[Any]:
        def in_thread(n: int) -> list[Any]:
            return [threading.current_thread() is threading.main_thread(), work(n), ask.call(n).result()]

        found = await asyncio.gather(*(asyncio.to_thread(in_thread, n) for n in range(3)))
        await restart.point()
        return list(found)

    found = await restart.result(native())
    assert [each[2] for each in found] == ["answer to 0", "answer to 1", "answer to 2"]
    assert sorted(executed) == sorted([f"work {n}" for n in range(3)] + [f"ask {n}" for n in range(3)])


async def test_a_loop_in_a_thread_can_await_steps(restart: Restart) -> None:
    @workflow(loop="native")
    async def native() -> Any:
        async def there() -> list[Any]:
            return list(await asyncio.gather(ask("a"), ask("b")))

        found = await asyncio.to_thread(lambda: asyncio.run(there()))
        await restart.point()
        return found

    assert await restart.result(native()) == ["answer to a", "answer to b"]
    assert sorted(executed) == ["ask a", "ask b"]


async def test_it_waits_for_people_messages_children_and_moments_and_rests_meanwhile(
    open_app: OpenApp, ears: Ears
) -> None:
    @workflow
    async def child(n: int) -> int:
        return n + 1

    @workflow(loop="native")
    async def native() -> list[Any]:
        answers = await asyncio.gather(outlast.approve("pay 5?"), outlast.approve("pay 6?"))
        word = await outlast.receive("word", type=str)
        with pytest.raises(TimeoutError):
            await outlast.receive("never", timeout=0.05)
        before = outlast.now()
        await outlast.sleep_until(before + dt.timedelta(seconds=0.1))
        return [[a.note for a in answers], word, await child(1), outlast.now() - before >= dt.timedelta(seconds=0.1)]

    async with open_app(on_event=ears) as app:
        run = await app.start(native())
        await ears.hear("run.parked", run=run.id)
        asked = {info.question: info.id for info in await app.approvals()}
        await app.approve(asked["pay 6?"], note="six")
        await app.approve(asked["pay 5?"], note="five")
        await run.send("word", "hello")
        assert await run.result() == [["five", "six"], "hello", 2, True]


async def test_a_sleep_that_is_reckoned_from_the_clock_ends_when_it_was_to_end_first(
    open_app: OpenApp, ears: Ears
) -> None:
    """Each time that the run goes on its body reckons anew, and would sleep on and on."""
    begun: list[dt.datetime] = []

    @workflow(loop="native")
    async def native() -> int:
        begun.append(dt.datetime.now(dt.UTC))
        await outlast.sleep_until(begun[-1] + dt.timedelta(seconds=0.5))
        return 1

    async with open_app(on_event=ears) as app:
        run = await app.start(native())
        await ears.hear("run.parked", run=run.id)
        assert await run.result() == 1
        (slept,) = [step for step in await run.steps() if step.kind == "timer"]
    assert len(begun) == 2
    assert slept.due == (begun[0] + dt.timedelta(seconds=0.5)).timestamp()


async def test_a_part_that_starts_again_is_told_what_it_did(open_app: OpenApp) -> None:
    @workflow(loop="native")
    async def native() -> list[Any]:
        found = []
        for attempt in range(3):
            with contextlib.suppress(ValueError), replayed("node"):
                found.append([await ask("model"), await work.call("tool")])
                if attempt < 2:
                    raise ValueError
        with replayed("node"):  # once more, and it goes further
            found.append([await ask("model"), await work.call("tool"), await ask("more")])
        return found

    async with open_app() as app:
        found = await (await app.start(native())).result()
    assert found[0] == found[1] == found[2] == found[3][:2]
    assert executed == ["ask model", "work tool", "ask more"]


async def test_parts_of_one_name_at_the_same_time_are_apart(open_app: OpenApp) -> None:
    @workflow(loop="native")
    async def native() -> list[str]:
        async def part() -> str:
            with replayed("node"):
                await io()
                return str(await work.call("tool"))

        return list(await asyncio.gather(part(), part()))

    async with open_app() as app:
        one, other = await (await app.start(native())).result()
    assert one != other


async def test_a_cancelled_step_that_is_asked_for_again_keeps_its_key(open_app: OpenApp) -> None:
    door, keys = Door(), []

    @step
    async def slow() -> str:
        keys.append(outlast.idempotency_key())
        await door.passed()
        return "done"

    @workflow(loop="native")
    async def native() -> str:
        async def part() -> str:
            with replayed("node"):
                return await slow()

        first = asyncio.create_task(part())
        await door.reached()
        first.cancel()
        await asyncio.wait([first])
        again = asyncio.create_task(part())
        await door.reached(2)
        door.open()
        return await again

    async with open_app() as app:
        assert await (await app.start(native())).result() == "done"
    assert len(keys) == 2
    assert len(set(keys)) == 1


async def test_a_step_that_ends_though_it_was_given_up_is_not_done_again(open_app: OpenApp) -> None:
    door, done = Door(), []

    @step
    def in_thread() -> str:
        done.append(outlast.idempotency_key())
        door.pass_in_thread()
        return "done"

    @workflow(loop="native")
    async def native() -> list[str]:
        async def part() -> str:
            with replayed("node"):
                return await in_thread.call()

        first = asyncio.create_task(part())
        await door.reached()
        first.cancel()
        await asyncio.wait([first])
        again = asyncio.create_task(part())
        await io()
        door.open()
        said = await again
        with replayed("node"):
            return [said, await in_thread.call()]

    async with open_app() as app:
        assert await (await app.start(native())).result() == ["done", "done"]
    assert len(done) == 1


async def test_a_step_whose_time_is_over_is_given_up_at_once(open_app: OpenApp) -> None:
    given_up = Door()

    @step
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            given_up.arrived += 1

    @workflow(loop="native")
    async def native() -> str:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await slow()
        await io()
        return "over"

    async with open_app() as app:
        assert await (await app.start(native())).result() == "over"
    assert given_up.arrived == 1


async def test_nothing_new_begins_where_the_code_has_not_come_by_what_is_recorded(
    restart: Restart, monkeypatch: pytest.MonkeyPatch, open_app: OpenApp
) -> None:
    monkeypatch.setattr(native_engine, "HELD_AT_MOST_S", 0.1)
    passes = []

    @workflow(loop="native")
    async def native() -> Any:
        passes.append(1)
        if len(passes) == 1:
            await ask("old")
        else:
            await work.call("new")
        await restart.point()

    async with open_app() as app:
        run = await restart.run(native())
        info = await stuck(await app.get(run))
    assert info.reason == "diverged"
    assert "ask" in info.detail
    assert "work" in info.detail
    assert executed == ["ask old"]


async def test_code_that_waits_for_what_is_behind_a_record_it_never_asks_for_has_diverged(
    restart: Restart, monkeypatch: pytest.MonkeyPatch, open_app: OpenApp
) -> None:
    monkeypatch.setattr(native_engine, "HELD_AT_MOST_S", 0.1)
    passes: list[int] = []

    @workflow(loop="native")
    async def native() -> None:
        passes.append(1)
        if len(passes) == 1:
            await ask("old")
        await ask("both")
        await restart.point()

    async with open_app() as app:
        info = await stuck(await app.get(await restart.run(native())))
    assert info.reason == "diverged"
    assert "old" in info.detail


async def test_a_body_that_ends_before_its_journal_does_has_diverged(restart: Restart, open_app: OpenApp) -> None:
    passes = []

    @workflow(loop="native")
    async def native() -> Any:
        passes.append(1)
        if len(passes) == 1:
            await ask("old")
            await restart.point()

    async with open_app() as app:
        info = await stuck(await app.get(await restart.run(native())))
    assert info.reason == "diverged"


async def test_other_arguments_under_a_key_have_diverged_unless_they_may_vary(
    restart: Restart, open_app: OpenApp
) -> None:
    @step(check_args=False)
    async def vary(what: str) -> str:
        executed.append(what)
        return what

    passes: list[int] = []

    @workflow(loop="native")
    async def varying() -> list[str]:
        passes.append(1)
        said = [await vary(f"call {len(passes)}"), await vary.options(key="k")(f"key {len(passes)}")]
        await restart.point()
        return said

    assert await restart.result(varying()) == ["call 1", "key 1"]
    assert executed == ["call 1", "key 1"]
