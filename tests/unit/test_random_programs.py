"""Random programs, live in random worlds, and replayed from every prefix of their journals.

A failure names its seed: `OUTLAST_SEED=17 pytest tests/unit/test_random_programs.py` plays that one again, from
every prefix and to the end. `make soak` plays new ones for minutes.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest

from outlast.core import loop, spawners
from outlast.core.definitions import Call
from outlast.core.engine import Engine
from outlast.core.futures import RunFuture, RunGather
from outlast.core.loop import RunTask
from outlast.core.pending import CallFuture
from outlast.core.records import Kind, Record
from tests.support.nodes import BRANCHES, LEAVES
from tests.support.programs import Program
from tests.support.simulation import Difference, World, check, must_repeat

PROGRAMS, CHUNK = 320, 16
CONTINUED = 8
"""From so many of its prefixes a journal is continued in another world; the soak test continues from all."""

_one = os.environ.get("OUTLAST_SEED")


@pytest.mark.skipif(_one is not None, reason="OUTLAST_SEED asks for one program")
@pytest.mark.parametrize("first", range(0, PROGRAMS, CHUNK))
def test_random_programs_replay_from_every_prefix(first: int) -> None:
    for seed in range(first, first + CHUNK):
        check(seed, most_continued=CONTINUED)


@pytest.mark.parametrize("limit", [3, 17])
def test_turns_that_are_cut_short_replay_as_they_were_cut(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(loop, "CALLBACKS_PER_DRAIN", limit)
    for seed in range(20):
        check(seed, most_continued=CONTINUED)


@pytest.mark.skipif(_one is None, reason="OUTLAST_SEED asks for no program")
def test_the_program_that_was_asked_for_replays_from_every_prefix() -> None:
    check(int(_one or 0))


@pytest.mark.soak
def test_random_programs_replay_for_as_long_as_it_takes() -> None:
    until = time.monotonic() + 60 * float(os.environ.get("OUTLAST_SOAK_MINUTES", "10"))
    while time.monotonic() < until:
        check(random.getrandbits(48))


def test_between_them_the_programs_do_everything() -> None:
    entered, recorded, ended = set(), set(), set()
    for seed in range(PROGRAMS):
        with World(Program(seed), f"{seed} live") as world:
            world.play()
        entered |= {what[3] for what in world.trace if what[2] == "enter"}
        recorded |= {record.kind for record in world.records}
        ended.add(world.ending()[0].value)
    assert entered == {node.__name__ for node in LEAVES + BRANCHES}
    assert recorded == set(Kind) - {Kind.ASK, Kind.MESSAGE, Kind.RESOLUTION}  # those take somebody outside the run
    assert ended == {"succeeded", "failed", "cancelled"}


# -- a harness that finds nothing proves nothing: each of these must be caught --------------------------


def caught(**broken: Any) -> Difference | None:
    """Return the first difference that the random programs show in a broken engine."""
    for seed in range(100):
        try:
            check(seed, most_continued=2, **broken)
        except Difference as difference:
            return difference
    return None


class DeliversInOrderOfIssue(Engine):
    """Results come by number in replay, not in the order in which they were recorded."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._recorded = deque(_sorted_stretches(self._recorded))


def _sorted_stretches(records: deque[Record]) -> Iterator[Record]:
    stretch: list[Record] = []
    for record in records:
        if record.kind not in (Kind.STEP, Kind.CHILD):
            yield from sorted(stretch, key=lambda r: (r.cause, r.key))
            stretch = []
            yield record
        else:
            stretch.append(record)
    yield from sorted(stretch, key=lambda r: (r.cause, r.key))


class DrawsAnew(Engine):
    """A draw is random, not derived."""

    def draw(self, name: str) -> str:
        return f"{random.getrandbits(128):032x}"


class KeepsTime(Engine):
    """Time in the body is that of the moment, not of the last event."""

    def now(self) -> float:
        return time.monotonic()


def test_results_delivered_in_order_of_issue_are_caught() -> None:
    assert "what was seen" in str(caught(engine=DeliversInOrderOfIssue))


def test_live_objects_handed_to_the_body_are_caught() -> None:
    assert "what was seen" in str(caught(raw=True))


def test_random_draws_are_caught() -> None:
    assert caught(engine=DrawsAnew)


def test_a_clock_that_runs_is_caught() -> None:
    assert caught(engine=KeepsTime)


def _address(self: Any) -> int:
    """What hashing by address is at its worst: no two executions make their objects in places of one order."""
    return hash((id(self), "shuffled"))


@pytest.mark.parametrize("kind", [RunTask, RunFuture, RunGather])
def test_what_hashes_by_address_is_caught(monkeypatch: pytest.MonkeyPatch, kind: type) -> None:
    monkeypatch.setattr(kind, "__hash__", _address)
    assert caught()


def test_default_names_of_tasks_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    make = RunTask.__init__

    def without_name(self: RunTask, coro: Any, *, name: str, **rest: Any) -> None:
        make(self, coro, **rest)

    monkeypatch.setattr(RunTask, "__init__", without_name)
    assert caught()


def test_a_once_step_that_is_cancelled_in_the_midst_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def cancel(self: CallFuture, msg: Any = None) -> bool:
        if not self.done():
            self.pending.engine._withdraw(self.pending)
        return asyncio.Future.cancel(self, msg)

    monkeypatch.setattr(CallFuture, "cancel", cancel)
    assert caught()


def test_identities_numbered_by_start_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every order but that of creation depends on more than the program: here on the Python that runs it."""
    sound = [seed for seed in range(100) if _replays_under_the_other_wait_for(seed)]
    assert len(sound) > 90
    started: dict[int, int] = {}
    issue = Engine.issue

    def numbered(self: Engine, call: Call[Any]) -> Any:
        started[id(self)] = n = started.get(id(self), 0) + 1
        call.key = f"main/{call.definition.name}#{n}"
        return issue(self, call)

    monkeypatch.setattr(Engine, "issue", numbered)
    assert not all(_replays_under_the_other_wait_for(seed) for seed in sound)


def _replays_under_the_other_wait_for(seed: int) -> bool:
    """Record a program with this Python's wait_for, and replay it with the other kind."""
    with World(Program(seed), f"{seed} live") as first:
        first.play()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio, "wait_for", _inline if sys.version_info < (3, 12) else _in_a_task)
        patch.setattr(spawners, "_WAIT_FOR", spawners._WAIT_FOR | {_inline.__code__, _in_a_task.__code__})
        try:
            must_repeat(Program(seed), first, f"seed {seed}")
        except Difference:
            return False
    return True


async def _inline(awaitable: Any, timeout: float | None) -> Any:
    """What wait_for is from Python 3.12 on."""
    if timeout is None or timeout > 0:
        async with asyncio.timeout(timeout):
            return await awaitable
    task = asyncio.ensure_future(awaitable)
    task.cancel()
    return await _result_after_timeout(task)


async def _in_a_task(awaitable: Any, timeout: float | None) -> Any:
    """What wait_for was before Python 3.12."""
    task = asyncio.ensure_future(awaitable)
    if timeout is None or timeout > 0:
        try:
            done, _ = await asyncio.wait([task], timeout=timeout)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task])
            raise
        if done:
            return task.result()
    task.cancel()
    return await _result_after_timeout(task)


async def _result_after_timeout(task: asyncio.Task[Any]) -> Any:
    await asyncio.wait([task])
    try:
        return task.result()
    except asyncio.CancelledError:
        raise TimeoutError from None
