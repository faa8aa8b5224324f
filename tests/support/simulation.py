"""A world that plays the runtime's part for a random program, and the comparison of what was seen.

Everything that may vary in a real world varies here by a seed: how long attempts take and in which order they
end, what they return or raise, failed attempts, intents and doubts, late outcomes, timers that fire late,
cancellations. What a program saw in one such world must be seen again by every replay of its journal.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from outlast.core.engine import Engine
from outlast.core.invariants import executed_again, open_intents, rewritten, without_intent
from outlast.core.pending import Pending
from outlast.core.records import Effect, Kind, Record
from tests.support.plain_codec import Boom
from tests.support.programs import Program
from tests.support.rig import Rig

MOST_DEEDS = 5_000


class Difference(AssertionError):
    """A replay did not repeat what was recorded."""


class World(Rig):
    """One execution of a program. `marks[n]` is the state of the run once `n` records were dealt with."""

    def __init__(
        self,
        program: Program,
        seed: str,
        records: Sequence[Record] = (),
        *,
        engine: type[Engine] = Engine,
        raw: bool = False,
    ) -> None:
        self.trace: list[Any] = []
        super().__init__(lambda: program.body(self.trace), records, engine=engine)
        self.asked: list[str] = []  # identities of the calls whose next attempt was asked for
        self.broken: list[str | None] = []  # what invariants say of each attempt
        self.marks: dict[int, Any] = {}
        self._raw = raw
        self._chance = Random(seed)
        self._agenda: list[tuple[float, float, Callable[..., None], tuple[Any, ...]]] = []
        self._doubts: set[str] = set()
        self._cancelled = any(record.kind is Kind.CANCEL for record in records)

    def begin(self) -> World:
        if not self._cancelled and self._chance.random() < 0.25:
            self._at(self.now + self._chance.uniform(0, 4), self._cancel)
        super().begin()
        return self

    def __enter__(self) -> World:
        return self.begin()

    def __exit__(self, *_: object) -> None:
        self.engine.stop()

    def play(self) -> World:
        """Go on until nothing is left to do."""
        for _ in range(MOST_DEEDS):
            if self.engine.failure is not None:
                return self
            timer = None if self._doubts or self.engine.outcome is not None else self.engine.next_timer()
            if self._agenda and (timer is None or self._agenda[0][0] < timer.when()):
                at, _, act, args = heapq.heappop(self._agenda)
                self.now = max(self.now, at)
                act(*args)
            elif timer is not None:
                self.now = max(self.now, timer.when() + self._pick(0, 0, 0.2))
                self.fire()
            elif self.engine.outcome is not None:
                return self
            else:  # a task that swallowed its cancellation, say in a `finally` that failed, and waits for nobody
                self.cancel()
        raise AssertionError(f"the program has not ended after {MOST_DEEDS} deeds")

    def after_turn(self) -> None:
        before = len(self.records) if self.marks else len(self.records) - 1
        engine = self.engine
        self.records += engine.unsent
        engine.unsent = []
        state = self.state()
        for n in range(before + 1, len(self.records) + 1):
            self.marks[n] = state
        engine.take_withdrawn()
        for pending in engine.take_starts():
            self._start(pending)

    def state(self) -> Any:
        """Everything that the run is at this moment, as far as it can be told from outside."""
        engine = self.engine
        waits = [
            (p.key, p.args, len(p.attempts), p.intent and p.intent.seq, p.future.deferred)
            for p in engine.waits_for()
            if engine.outcome is None
        ]
        tasks = [task.get_name() for task in engine.loop.tasks if not task.done()]
        return len(self.trace), engine.loop.now, engine.loop.seq, waits, self.timers, tasks, self.ending()

    def ending(self) -> Any:
        """How the run ended, in a form that can be compared."""
        outcome = self.engine.outcome
        return outcome and (outcome.status, outcome.value, repr(outcome.error), outcome.culprit)

    # -- chance ------------------------------------------------------------------------

    def _at(self, when: float, act: Callable[..., None], *args: Any) -> None:
        heapq.heappush(self._agenda, (when, self._chance.random(), act, args))

    def _pick(self, *choices: float) -> float:
        return self._chance.choice(choices)

    def _cancel(self) -> None:
        if self.engine.outcome is None:
            self.cancel()

    def _start(self, pending: Pending) -> None:
        self.asked.append(pending.key)
        if pending.intent is not None:  # a takeover: somebody has to find out what became of it
            self._doubts.add(pending.key)
            self._at(self.now + self._pick(0, 0.5, 3), self._end, pending)
        else:
            due = pending.attempts[-1].due if pending.attempts else None
            self._at(max(self.now + self._pick(0, 0, 0.05), due or 0), self._attempt, pending)

    def _attempt(self, pending: Pending) -> None:
        if pending.withdrawn or pending.done:
            return
        if pending.is_child:
            self.begin_child(pending.key)
        elif pending.effect is Effect.ONCE:
            self.intend(pending.key)
            if self._chance.random() < 0.1:  # its time was over before it could begin
                self.fail_attempt(pending.key, delay=0)
                return
            self.broken.append(without_intent(self.records, pending.key, len(pending.attempts) + 1))
        self.broken.append(executed_again(self.records, pending.key))
        self._at(self.now + self._pick(0, 0.1, 0.5, 0.5, 1.0, 2.0), self._end, pending)

    def _end(self, pending: Pending) -> None:
        self._doubts.discard(pending.key)
        roll = self._chance.random()
        late = pending.withdrawn or self.engine.outcome is not None
        if late and roll < 0.5:
            return  # it was cancelled, and left no trace
        if not late and not pending.is_child and roll < 0.15 and len(pending.attempts) < 2:
            self.fail_attempt(pending.key, Boom("attempt"), delay=self._pick(0, 0.3, 1))
        elif roll > 0.9:
            self.finish(pending.key, error=Boom(f"{self._chance.randint(0, 9)}"))
        else:
            value = (self._chance.randint(0, 99), {})
            self.finish(pending.key, value, live=value if self._raw else None)


def check(
    seed: int,
    only: tuple[str, ...] = (),
    *,
    engine: type[Engine] = Engine,
    raw: bool = False,
    most_continued: int = sys.maxsize,
) -> World:
    """Play the program of a seed, then replay it from every prefix of its journal. Raises Difference.

    Up to `most_continued` of the prefixes are played on to an end of their own, and that journal is replayed, too.
    `engine` and `raw` put something broken to the test. Returns the first execution.
    """
    program = Program(seed, only)
    with World(program, f"{seed} live", engine=engine, raw=raw) as first:
        _must_go_on(first.play(), f"seed {seed}, first execution")
    must_repeat(program, first, f"seed {seed}", engine)
    n = len(first.records)
    continued = Random(seed).sample(range(n), min(n, most_continued))
    for cut in range(n):
        what = f"seed {seed}, from {cut} of {n} records"
        with World(program, f"{seed} from {cut}", first.records[:cut], engine=engine, raw=raw) as rest:
            _must_go_on(rest, what)
            _must_equal(rest.marks[cut], first.marks[cut], f"{what}: the state after replay")
            _must_equal(rest.trace, first.trace[: len(rest.trace)], f"{what}: what was seen")
            if cut not in continued:
                continue
            _must_go_on(rest.play(), what)
        _must_hold(what, rewritten(first.records[:cut], rest.records))
        must_repeat(program, rest, what, engine)
    return first


def must_repeat(program: Program, played: World, what: str, engine: type[Engine] = Engine) -> None:
    """Replay a whole journal: same sights, same end, no step executed, nothing recorded."""
    with World(program, "none", played.records, engine=engine) as again:
        _must_go_on(again, f"{what}, replayed")
        _must_equal(again.trace, played.trace, f"{what}, replayed: what was seen")
        _must_equal(again.ending(), played.ending(), f"{what}, replayed: the end")
        steps = [key for key in again.asked if again.engine.calls[key].call.is_step]
        _must_equal(steps, [], f"{what}, replayed: executed again")
        _must_equal(len(again.records), len(played.records), f"{what}, replayed: the number of records")


def _must_hold(what: str, *broken: str | None) -> None:
    """Raise what was said of an invariant that is broken."""
    for rule in broken:
        if rule is not None:
            raise Difference(f"{what}: {rule}")


def _must_go_on(world: World, what: str) -> None:
    if world.engine.failure is not None:
        raise Difference(f"{what}: {world.engine.failure}")
    _must_hold(what, *world.broken)
    if world.engine.outcome is not None and (left := open_intents(world.records)):
        raise Difference(f"{what}: the attempt of {left[0].key} came to nothing")


def _must_equal(found: Any, expected: Any, what: str) -> None:
    if found == expected:
        return
    if isinstance(found, list) and isinstance(expected, list):
        i = next(
            (i for i, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b), min(len(found), len(expected))
        )
        found, expected = found[i : i + 3], expected[i : i + 3]
        what = f"{what}, at {i}"
    raise Difference(f"{what}\n  found:    {found}\n  expected: {expected}")
