"""Journals that one Python made, for all others to replay.

    python -m tests.support.recorded make      # write tests/data/journals-3.11.json, named after this Python
    python -m tests.support.recorded replay    # replay all that are there

Make them anew, with each Python, when programs.py or the form of records changes, and only then: as long as the
old ones replay, so do the runs of users.
"""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec

import outlast
from outlast.core.records import Record
from tests.support.nodes import Play, charge, child, fetch, fold, save
from tests.support.programs import Program
from tests.support.simulation import World

DATA = Path(__file__).parent.parent / "data"
SEEDS = 24

Script = Callable[[Play], Coroutine[Any, Any, Any]]
SCRIPTS: dict[str, Script] = {}


class Journal(msgspec.Struct):
    """What one program recorded, saw and came to."""

    records: list[dict[str, Any]]
    sights: dict[str, list[str]]
    ending: str


class Journals(msgspec.Struct):
    """The journals that one Python made, by program."""

    python: str
    journals: dict[str, Journal]


class Scripted:
    """A program that is written down, in the form of a random one."""

    def __init__(self, script: Script) -> None:
        self._script = script

    def body(self, trace: list[Any]) -> Coroutine[Any, Any, Any]:
        return self._script(Play(trace, []))


def script(function: Script) -> Script:
    SCRIPTS[function.__name__] = function
    return function


@script
async def wait_for_a_plain_coroutine(p: Play) -> int:
    async def work(i: int) -> int:
        p.see("works", i)
        total = fold(0, await fetch(i))
        await asyncio.sleep(0.2)
        return fold(total, await save(i))

    total = 0
    for i in range(3):
        try:
            total = fold(total, await asyncio.wait_for(work(i), 1.5))
        except TimeoutError:
            total = fold(total, await fetch("late"))
    return fold(total, await asyncio.gather(asyncio.wait_for(work(7), 9), work(8), return_exceptions=True) and 1)


@script
async def wait_for_that_is_out_of_time(p: Play) -> int:
    async def work() -> None:
        try:
            await asyncio.gather(fetch(1), asyncio.sleep(60))
        finally:
            p.see("cleans up", await save("clean up"))

    try:
        await asyncio.wait_for(work(), 0.3)
    except TimeoutError:
        p.see("timeout")
    try:
        await asyncio.wait_for(charge(5), 0.2)
    except TimeoutError:
        p.see("the charge was made first")
    return fold(0, await save("after"))


@script
async def group_that_fails(p: Play) -> int:
    async def fails() -> None:
        await fetch("fails")
        raise ValueError("no")

    async def is_cancelled() -> None:
        try:
            await asyncio.wait_for(asyncio.sleep(60), 90)
        finally:
            p.see("cancelled", await save("undo"))

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(fails())
            group.create_task(is_cancelled())
            group.create_task(charge(3))
    except* ValueError as errors:
        p.see("group", len(errors.exceptions))
    return fold(1, await child("after"))


@script
async def timeouts_in_timeouts(p: Play) -> int:
    total = 0
    for outer, inner in ((5, 0.2), (0.2, 5), (0.4, 0.4)):
        try:
            async with asyncio.timeout(outer):
                try:
                    async with asyncio.timeout(inner):
                        await asyncio.gather(fetch(outer), asyncio.sleep(3))
                except TimeoutError:
                    total = fold(total, await save("inner"))
        except TimeoutError:
            total = fold(total, await save("outer"))
    return total


@script
async def races(p: Play) -> list[str]:
    async def run(name: str) -> str:
        try:
            await fetch(name)
            await save(name)
        except asyncio.CancelledError:
            p.see("loses", await save(f"{name} lost"))
            raise
        return name

    won = []
    for _ in range(2):
        tasks = [asyncio.create_task(run(name)) for name in "abc"]
        done, losers = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in losers:
            task.cancel()
        await asyncio.gather(*losers, return_exceptions=True)
        won += [task.get_name() for task in done]
    for each in asyncio.as_completed([fetch(i) for i in range(3)]):
        p.see("completed", fold(0, await each))
    return won


@script
async def streams(p: Play) -> int:
    queue: asyncio.Queue[int] = asyncio.Queue(1)

    async def pages() -> AsyncIterator[int]:
        try:
            for page in range(4):
                yield fold(0, await fetch(page))
        finally:
            p.see("closed", await save("close"))

    async def produce() -> None:
        async for page in pages():
            await queue.put(page)

    with outlast.scope("stream"):
        producer = asyncio.create_task(produce())
    total = 0
    for _ in range(2):
        total = fold(total, await asyncio.wait_for(queue.get(), 60))
    p.see(outlast.uuid4().hex, outlast.random.random())
    producer.cancel()
    return total


def programs() -> dict[str, Any]:
    scripted: dict[str, Any] = {name: Scripted(function) for name, function in SCRIPTS.items()}
    return scripted | {f"random {seed}": Program(seed) for seed in range(SEEDS)}


def sights_of(world: World) -> dict[str, list[str]]:
    """What each branch saw. Which of two branches comes first within a turn is asyncio's affair, and may change."""
    sights: dict[str, list[str]] = defaultdict(list)
    for branch, *what in world.trace:
        sights[branch].append(str(what))
    return dict(sights)


def make(name: str, program: Any) -> Journal:
    with World(program, f"recorded {name}") as world:
        world.play()
    return Journal([_brief(record) for record in world.records], sights_of(world), str(world.ending()))


def replay(journal: Journal, program: Any) -> World:
    with World(program, "none", msgspec.convert(journal.records, list[Record])) as world:
        return world


def _brief(record: Record) -> dict[str, Any]:
    """A record without the fields that say nothing."""
    values = Record.__struct_defaults__
    defaults = dict(zip(Record.__struct_fields__[-len(values) :], values, strict=True))
    fields = {name: getattr(record, name) for name in Record.__struct_fields__}
    return {name: value for name, value in fields.items() if name not in defaults or value != defaults[name]}


def load() -> list[Journals]:
    return [msgspec.json.decode(path.read_bytes(), type=Journals) for path in sorted(DATA.glob("journals-*.json"))]


def differences() -> list[str]:
    """Replay all journals that are there; say where one does not repeat what was recorded."""
    known, found = programs(), []
    for made in load():
        for name, journal in made.journals.items():
            world = replay(journal, known[name])
            if world.engine.failure is not None:
                found.append(f"{name}, made by {made.python}: {world.engine.failure}")
            elif (sights_of(world), str(world.ending())) != (journal.sights, journal.ending):
                found.append(f"{name}, made by {made.python}: ended with {world.ending()}, not {journal.ending}")
    return found


def main() -> None:
    if sys.argv[1:] == ["make"]:
        version = ".".join(map(str, sys.version_info[:2]))
        journals = {name: make(name, program) for name, program in programs().items()}
        made = msgspec.json.encode(Journals(sys.version.split()[0], journals))
        (DATA / f"journals-{version}.json").write_bytes(made + b"\n")
    elif found := differences():
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
