"""The engine of a native workflow: its body runs on the worker's own loop, among real I/O.

Theory of operation
-------------------

Nothing is fed to the body in one order, since it does not come to its calls in one order. The journal is kept by scope
(`native_scopes.py`). A call that is issued is looked up by its identity:

- its outcome is recorded: it is given when all that was recorded before in that scope has been given;
- nothing is recorded of it, and the scope has records that its code has not asked for: it is held back until it has;
- else it starts, as in any run.

So there is no replay that comes first: a native run is live from its beginning, and each of its scopes catches up by
itself. `_move` does all that is due, once in a turn of the worker's loop.

Code that differs from its journal is found out when a call does not fit its record, when a call was held back too long,
or when the body has ended and records are left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn, cast

from outlast.core.body_operations import wake
from outlast.core.codec import Codec
from outlast.core.deadlines import is_deadline
from outlast.core.definitions import Call
from outlast.core.divergence import differs
from outlast.core.effects import InBody
from outlast.core.engine import Engine
from outlast.core.errors import DecodingError, Diverged, WrongUse
from outlast.core.identity import Branch, here
from outlast.core.loop import RunTimer
from outlast.core.native_body import NativeBody, attach, content_of, is_of_io
from outlast.core.native_scopes import NativeBranch, Scope, Scopes
from outlast.core.pending import CallFuture, Pending
from outlast.core.records import Effect, Kind, Record, RunRow
from outlast.core.waits import Wait

HELD_AT_MOST_S = 60.0
"""So long a call waits in a scope whose code asks for nothing; then what is recorded there counts as not asked for.

Where it took the code long to come to what is recorded next, it is given twice that time more."""

LOOK_AGAIN_S = 5.0
"""So often it is looked whether a body that sleeps by itself does so no more."""

SETTLED_AFTER_TURNS = 20
"""So many turns of the loop a body has to come to its next wait, before it is told of something else."""


class NativeEngine(Engine):
    """See the top of this file. With `resumes` the body has a state of its own, and may pass by what is recorded."""

    body: NativeBody

    def __init__(
        self, row: RunRow, records: Sequence[Record], codec: Codec, body: NativeBody, *, resumes: bool = False
    ) -> None:
        super().__init__(row, records, codec, body)
        self._recorded.clear()
        self.scopes = Scopes(row.began, records)
        self.resumes = resumes
        self._cancels: list[Record] = []
        for record in records:
            if record.kind is Kind.CANCEL:
                self._cancel_later(record)
        self._unsettled: dict[str, Scope] = {}  # where something is to be given, or held back
        self._moving = False
        self._looks_again = False
        self.may_be_set_back = True
        self._quiet = 0  # turns of the loop in which the body was told nothing
        self._on_leave: Callable[[], None] | None = None
        self._then: Callable[[], None] | None = None

    # -- driving it --------------------------------------------------------------

    def begin(self) -> None:
        self.live = True
        self.body.begin(self)
        self.stir()

    def stir(self) -> None:
        """Do what is due, soon."""
        if not self._moving and not self.closed:
            self._moving = True
            self.body.soon(partial(self.guard, self._move))

    def _move(self) -> None:
        self._moving = False
        if self.closed:
            return
        try:
            for scope in list(self._unsettled.values()) if self.failure is None else ():
                self._go_on(scope)
            if self.failure is None:
                self._cancel_in_time()
        except (Diverged, DecodingError) as failure:
            self.failure = failure
        if self.failure is None:
            self._check_end()
        self.on_turned()  # also where a call that was issued does not fit its record: nothing else tells of that

    def _go_on(self, scope: Scope) -> None:
        """Give the code of a scope what it is to be told next; let go what was held back once that is all."""
        if scope.pause:  # what it was told last may still be on its way to code that waits for the first of several
            scope.pause -= 1
            self.stir()
            return
        given = scope.next()
        if given is not None:
            key, record = given
            scope.pause = SETTLED_AFTER_TURNS if scope.asked else 0
            scope.moved = self.body.loop.time()
            pending = self.calls.get(key)
            scope.at = max(scope.at, record.at)
            if record.kind is Kind.TIMER or pending is None:
                self._apply(record, None, None)
            else:
                self._apply(record, *self._decode(record, pending))
            self.body.turn()
            self._quiet = 0
            self.stir()
        elif not scope.left():
            held, scope.held = scope.held, []
            for pending in held:
                self._queue(pending)
            if not scope.asked:
                del self._unsettled[scope.path]

    def _cancel_in_time(self) -> None:
        """Deliver a cancellation once the body has been told all that was recorded before it."""
        if not self._cancels or any(scope.asked for scope in self._unsettled.values()):
            return
        self._quiet += 1
        if self._quiet < SETTLED_AFTER_TURNS:  # the body may not have come yet to where it was when it was cancelled
            self.stir()
            return
        cancel = self._cancels[0]
        if self.resumes or not any(record.seq < cancel.seq for record in self.scopes.left()):
            self._apply(self._cancels.pop(0), None, None)

    def next_timer(self) -> RunTimer | None:
        """Return the timer that is due first; none while the body is still told what is recorded."""
        return None if any(scope.asked for scope in self._unsettled.values()) else super().next_timer()

    @property
    def at_rest(self) -> bool:
        """Whether what the body waits for is known, and all of it comes from outside or with time.

        What else it does, unknown to the run, is ended when the run rests, and done again by whoever goes on with it.
        """
        if self._unsettled:  # as in each turn while the body is told what is recorded: who waits is counted by looking
            return False
        if not (self.waits_for() or self.loop.timers):
            return False
        if self.body.has_timers():
            self._look_again()
            return False
        return True

    def _look_again(self) -> None:
        """Look in a while whether the run may rest: nothing else tells of the end of a sleep of the body's own."""
        if not self._looks_again:
            self._looks_again = True
            self.body.later(LOOK_AGAIN_S, partial(self.guard, self._looked_again))

    def _looked_again(self) -> None:
        self._looks_again = False
        self.stir()

    def _pump(self) -> None:
        while self._events and not self.closed and self.failure is None:
            record, value, error = self._events.popleft()
            if record.kind is Kind.CANCEL:
                self._cancel_later(record)
                self.stir()
            elif self._apply(record, value, error):
                self._turn()

    def _cancel_later(self, record: Record) -> None:
        self._cancels.append(record)
        self.cancel_asked = True
        if is_deadline(record):
            self.expired = record

    def _left(self) -> list[Record]:
        return [] if self.resumes else self.scopes.left()

    def _check_end(self) -> None:
        """End, unless I/O of the body's own has failed before it came to where it was: then it is tried again."""
        error = self.body.raised() if self.outcome is None else None
        if error is None or not self.may_be_set_back or not (is_of_io(error) and self._left()):
            super()._check_end()
        elif self.body.finished() is not None:
            self.setback = error

    def event(self, kind: Kind, now: float, **fields: Any) -> Record:
        record = super().event(kind, now, **fields)
        self.scopes.add(record)
        return record

    note = event

    def _apply(self, record: Record, value: Any, error: BaseException | None) -> bool:
        if record.key and record.kind is not Kind.ATTEMPT:
            scope = self.scopes.of(record.key.removesuffix("/!timeout").rpartition("/")[0])
            scope.at = max(scope.at, record.at)
        return super()._apply(record, value, error)

    # -- what the body asks -------------------------------------------------------

    def issue(self, call: Call[Any]) -> Any:
        if not self.body.is_here():
            if self.closed:
                self.body.refuse()
            return self.body.hand_over(partial(self.issue, call))
        return super().issue(call)

    def _issue(self, call: Call[Any], encoded: bytes, recorded: bytes) -> CallFuture:
        branch: Branch = call.place.branch.current()
        if not call.key:
            assert isinstance(branch, NativeBranch)
            call.key = branch.by_content(call.definition.name, content_of(self.codec, call, recorded))
            self._check_alone(call)
        key = call.key
        scope = self.scopes.of(key.rpartition("/")[0])
        before = self.calls.get(key)
        if key in scope.issued:
            raise RuntimeError(f"{call!r} was awaited before; call {call.definition.written} again for a new call")
        if before is not None and not before.done and not before.withdrawn:
            scope.issued.add(key)
            scope.moved = self.body.loop.time()
            return before.future  # other code, of the scope as it was before, waits for it, too
        pending = self._new(call, encoded, recorded)
        self._unsettled[scope.path] = scope
        scope.moved = self.body.loop.time()
        known = [*scope.notes.get(key, ()), *([scope.outcomes[key]] if key in scope.outcomes else ())]
        try:
            for record in known:
                if record.kind is not Kind.TIMER:
                    self._check_same(record, pending)
        except Diverged as failure:
            self.failure = failure
        for note in scope.notes.get(key, ()):
            attach(note, pending)
        if scope.ask(key) or self.failure is not None:
            self._watch(scope)
        elif scope.left():
            scope.held.append(pending)
            self._watch(scope)
        else:
            self._queue(pending)
        self.stir()
        return pending.future

    def _check_alone(self, call: Call[Any]) -> None:
        """Refuse a `once` step of which an equal one is under way: which is which, nobody could tell again."""
        base, _, n = call.key.rpartition("#")
        before = self.calls.get(f"{base}#{int(n) - 1}") if call.settings.effect is Effect.ONCE else None
        if before is not None and not before.done and not before.withdrawn:
            raise WrongUse(
                f"run {self.run_id}: `once` step {call.definition.name} is called twice at once with the same "
                "arguments, and after a crash each call could be told what the other came to; give each a key: "
                f"{call.definition.name}.options(key=...)"
            )

    def ask_again(self, pending: Pending) -> None:
        scope = self.scopes.of(pending.key.rpartition("/")[0])
        if scope.ask(pending.key):  # it came to an outcome, though its code had given it up
            self._unsettled[scope.path] = scope
            self.stir()
        else:
            super().ask_again(pending)

    def _withdraw(self, pending: Pending) -> None:
        super()._withdraw(pending)
        self.stir()

    def _new(self, call: Call[Any], encoded: bytes, recorded: bytes) -> Pending:
        future = CallFuture(loop=self.body.loop)
        pending = future.pending = Pending(self, call, encoded, recorded, future)
        if isinstance(wait := call.definition, Wait):
            wait.issued(self.row.incarnation, call.key)
            if wait.timeout is not None:
                timer = RunTimer(self.scope_at() + wait.timeout, self._too_late, (pending,), self.loop, None)
                pending.timer = self.loop.set_timer(f"{call.key}/!timeout", timer)
        self.calls[call.key] = pending
        return pending

    def _watch(self, scope: Scope) -> None:
        """Look after a time whether the code of the scope has gone on."""
        if not scope.watched:
            scope.watched = True
            left = self._patience(scope) - (self.body.loop.time() - scope.moved)
            self.body.later(max(0.05, left), partial(self.guard, partial(self._check_held, scope)))

    def _patience(self, scope: Scope) -> float:
        """Return how long the code of a scope may ask for nothing: what it does by itself takes as long again."""
        left = scope.left()
        return HELD_AT_MOST_S + (2 * max(0.0, left[0].at - scope.at) if left else 0.0)

    def _check_held(self, scope: Scope) -> None:
        """Give a scope up whose code waits, and for long has not asked for what is recorded there and comes first."""
        scope.watched = False
        if self.closed or self.failure is not None or scope.path not in self._unsettled:
            return
        left, quiet = scope.left(), self.body.loop.time() - scope.moved
        if not left or quiet < self._patience(scope):
            self._watch(scope)
            return
        code = (
            f"for {quiet:.0f} s the code has not made this call (if the time or chance is among what it passes: "
            "outlast.now() is the same in each execution)"
        )
        self.failure = differs(self.run_id, self.workflow, left[0], code, [p.key for p in self.waits_for()])
        self.on_turned()

    def timer(self, when: float) -> asyncio.Future[None]:
        """Return what is done at this time, in seconds since the epoch."""
        self.check()
        place = cast("InBody", here.get())
        key = place.branch.current().timer()
        scope = self.scopes.of(key.rpartition("/")[0])
        over: asyncio.Future[None] = self.body.loop.create_future()
        handle = self.loop.set_timer(key, RunTimer(when, wake, (over,), self.loop, None))
        over.add_done_callback(lambda _: handle.cancel())
        self._unsettled[scope.path] = scope
        scope.ask(key)
        self.stir()
        return over

    def now(self) -> float:
        """Return when that was recorded which this scope was told last, the same in each execution."""
        return self.scope_at()

    def scope_at(self) -> float:
        place = here.get()
        return self.scopes.of(place.branch.path).at if isinstance(place, InBody) else self.loop.now

    def patched(self, key: str) -> bool:
        self.check()
        answer = self._patches.get(key)
        if answer is None:
            answer = self._patches[key] = not self.scopes.left()
            if answer:
                self.note(Kind.PATCH, self.loop.now, key=key, name="patched")
        return answer

    def write(self, stream: str, value: Any) -> NoReturn:
        raise WrongUse(
            f"run {self.run_id}: the native workflow {self.workflow} wrote to the stream {stream!r} in its body, which "
            "may do so in another order when it is taken over; write to it in a step"
        )

    def _emit(self, name: str, data: bytes, is_item: bool, first: int = 0) -> None:
        place = here.get()
        if isinstance(place, InBody) and not self.scopes.of(place.branch.path).left():
            super()._emit(name, data, is_item, first)
            self.stir()

    # -- handing back --------------------------------------------------------------

    def on_leave(self, ask: Callable[[], None] | None) -> None:
        """Have `ask` called when the run is to be handed back, instead of ending the body where it is.

        The body then comes to a good end of its own and calls `handed_back`.
        """
        self._on_leave = ask

    def leave(self, then: Callable[[], None]) -> bool:
        ask, self._then = self._on_leave, then
        if ask is None:
            return False
        ask()
        return True

    async def handed_back(self) -> NoReturn:
        """Tell that the body is ready to be ended, and wait for it."""
        then, self._then, self._on_leave = self._then, None, None
        if then is not None:
            self.body.soon(then)
        await self.body.loop.create_future()
        raise AssertionError
