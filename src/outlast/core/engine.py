"""One run in memory: its body, its journal, and what it wants next.

Theory of operation
-------------------

The engine turns a journal back into a running body, and a running body into
more journal. It is a plain state machine with no clock and no I/O:

1.  `begin()` starts the body and lets it run until it can do no more (a
    **turn**). Calls that it makes are *issued*: each is a `Pending` with an
    identity and a future.
2.  Recorded entries are fed one by one, a turn after each. An event completes
    the future of the pending call (or fires the timer) with its identity; a note changes the
    pending call. An entry that fits nothing is `Diverged`.
3.  When the journal is used up the engine is *live*: `take_starts()` gives the
    pending calls that have no outcome, in order of issue; the runtime executes
    them and brings each outcome back through `deliver_*`, which makes the
    next record and takes a turn.
4.  When the body returns, the remaining tasks are cancelled in order of
    creation; when all have ended, `outcome` is set.

`unsent` collects new records in order. The runtime sends them to the store and
decides what must wait for their commit (the output-commit rule).

A body is either an `async def` on the run's own loop or a plain function in a
thread (`runtime/threads.py`). Both take turns: while a long one is under way
(`busy`), fed events queue up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from outlast.core.body import Body, Outcome
from outlast.core.body_operations import BodyOperations
from outlast.core.codec import Codec
from outlast.core.culprits import Culprits
from outlast.core.deadlines import is_deadline
from outlast.core.divergence import describe, differs, goes_on, raised, short
from outlast.core.durabilities import of_options
from outlast.core.emissions import Emission
from outlast.core.errors import DecodingError, Diverged, OutlastError, Spinning
from outlast.core.frames import locate
from outlast.core.loop import RunLoop, RunTimer
from outlast.core.pending import CallFuture, Pending, carried
from outlast.core.records import EVENTS, Kind, Record, RunRow
from outlast.core.sagas import Compensation, note_undone
from outlast.core.transitions import Status
from outlast.core.turns import Continuation, end_of_turn
from outlast.core.usage import MARKED, marked_as_replayed
from outlast.core.waits import Wait


class Engine(BodyOperations):
    """The state machine of one run. See the theory of operation at the top of this file."""

    def __init__(self, row: RunRow, records: Sequence[Record], codec: Codec, body: Body) -> None:
        self.row = row
        self.run_id = row.id
        self.workflow = row.workflow
        self.function: Callable[..., Any] | None = None  # the body's, to say where it stands
        self.codec = codec
        self.body = body
        self.loop = RunLoop()  # type: ignore[abstract]  # what a loop may lack, it refuses by name
        self.loop.now = row.began
        self.closed = False
        self.busy = False
        self.live = False
        self.cancel_asked = False
        self.expired: Record | None = None  # the cancellation that came since the deadline did
        self.outcome: Outcome | None = None
        self.failure: OutlastError | None = None  # Diverged or DecodingError: the run cannot go on
        self.setback: BaseException | None = None  # what failed by itself, so that the run is taken up again in a while
        self.on_forgotten: Callable[[str], None] = lambda key: None
        self.unsent: list[Record] = []
        self.emitted: list[Emission] = []  # in live turns, for others to see
        self.taken_up: int | None = None  # the turn that the code failed in before; see `take_up`
        self.calls: dict[str, Pending] = {}  # that have no outcome
        self.compensations: list[Compensation] = []  # in order of registration; made in reverse when the body fails
        self.continuation: Continuation | None = None  # the body asked to go on as this
        self.durability = of_options(row.options)
        self.compensating = False  # the body has failed, and what it did is being undone
        self.withdrawn: list[Pending] = []  # calls that the body gave up since the runtime last looked
        self.replayed = False  # a worker has died under the run, and the next record is to say so
        self.last_seq = records[-1].seq if records else 0
        self.last_at = max((r.at for r in records), default=self.loop.now)
        self.on_turned: Callable[[], None] = lambda: None
        self.guard: Callable[[Callable[[], None]], None] = lambda act: act()  # over a net, where there is one
        self._recorded: deque[Record] = deque(r for r in records if r.kind is not Kind.PATCH)
        self._events: deque[tuple[Record, Any, BaseException | None]] = deque()
        self._patches: dict[str, bool] = {r.key: True for r in records if r.kind is Kind.PATCH}
        self._starts: list[Pending] = []
        self._turn_items: dict[str, tuple[int, int]] = {}  # by stream: the turn that wrote last, and how many items
        self._done: set[str] = set()  # calls that have an outcome
        self._culprits = Culprits()
        self.culprit = self._culprits.of
        self.blame = self._culprits.blame

    # -- driving it (runtime) --------------------------------------------------

    @property
    def at_rest(self) -> bool:
        """Whether a body that is told nothing does nothing."""
        return True

    def leave(self, then: Callable[[], None]) -> bool:
        """Hear that the run is to be handed back; return True where `then` will be called once the body is ready."""
        return False

    def take_up(self, resumed_at: int) -> None:
        """The run was resumed behind this record, after its own code had failed in the turn before, and goes on in it.

        It is no matter any more once another turn has come.
        """
        last = max((record.seq for record in self._recorded if record.kind in EVENTS), default=0)
        self.taken_up = last if last <= resumed_at else None

    def begin(self) -> None:
        """Start the body, replay the journal, and go on to live."""
        self.live = not self._recorded  # what the body logs in its first turn is heard
        with self.loop.at_work():
            self.body.begin(self)
            self._turn()
        self._pump()

    def turned(self) -> None:
        """A turn that was under way has ended (a long one, or in a thread), or the loop was trespassed on."""
        self.guard(self._turned)

    def _turned(self) -> None:
        self.busy = False
        if not self.closed:
            self._check_end()
            self._pump()
            self.on_turned()

    def take_starts(self) -> list[Pending]:
        """Return the calls whose next attempt may begin now, in order of issue. Empty while replaying."""
        if not self.live or self.busy or not self._starts:
            return []
        starts, self._starts = self._starts, []
        for pending in starts:
            pending.queued = False
        return [p for p in starts if not p.withdrawn and not p.done]

    def take_withdrawn(self) -> list[Pending]:
        """Return the calls given up since the last look; those that run should be cancelled."""
        if not self.live:
            return []
        given_up = self.withdrawn
        if given_up:
            self.withdrawn = []
        return given_up

    def ask_again(self, pending: Pending) -> None:
        """Let a call begin that had to wait for the end of an attempt of the same call, which was given up."""
        self._queue(pending)

    def waits_for(self) -> list[Pending]:
        """Return the calls that have no outcome and that the body has not given up."""
        return [p for p in self.calls.values() if not p.done and not p.withdrawn]

    def next_timer(self) -> RunTimer | None:
        """Return the timer that is due first."""
        return self.loop.next_timer() if self.live else None

    def event(self, kind: Kind, now: float, **fields: Any) -> Record:
        """Make the next record and queue it to be sent; an event is then given to the body by `deliver`."""
        self.last_seq = seq = self.last_seq + 1
        self.last_at = at = max(now, self.last_at)
        if self.replayed and kind in MARKED and (note := marked_as_replayed(fields.get("note", ""))) is not None:
            self.replayed, fields["note"] = False, note
        record = Record(seq=seq, kind=kind, at=at, **fields)
        self.unsent.append(record)
        return record

    note = event  # a record that the body never sees needs no delivery

    def deliver(self, event: Record, value: Any = None, error: BaseException | None = None) -> None:
        """Give an event to the body. `value` or `error` is what its record decodes to."""
        self._events.append((event, value, error))
        self._pump()

    def stop(self) -> None:
        """Shut all operations, then end the body's code from outside."""
        self.closed = True
        self.body.stop()
        self._events.clear()
        self._recorded.clear()

    # -- turns -------------------------------------------------------------------

    def _turn(self) -> None:
        if not self.body.turn():
            self.busy = True
            return
        self._check_end()

    def _pump(self) -> None:
        """Feed the next entries until there is none, or a turn is under way."""
        with self.loop.at_work():
            while not self.busy and not self.closed and self.failure is None:
                if self._recorded:
                    try:
                        moved = self._replay(self._recorded.popleft())
                    except (Diverged, DecodingError) as failure:
                        self.failure = failure
                        return
                elif self._events:
                    self.live = True
                    moved = self._apply(*self._events.popleft())
                else:
                    self.live = True
                    self._check_health()
                    return
                if moved:
                    self._turn()

    def _check_end(self) -> None:
        outcome = None if self.outcome is not None else self.body.finished()
        if outcome is None:
            return
        outcome = end_of_turn(self, outcome)
        if outcome.error is not None and self.function is not None:
            locate(outcome.error, self.function)
        if left := self._left():
            self.failure = goes_on(self.run_id, self.workflow, left, outcome)
            return
        self.outcome = outcome

    def _left(self) -> list[Record]:
        """Return the recorded events that the body has not been told."""
        return [r for r in self._recorded if r.kind in EVENTS]

    def _spins(self) -> bool:
        """Tell whether the last turn was ended by its limit, while nothing is pending that could give the next."""
        return self.body.spins() and not self.waits_for() and self.loop.next_timer() is None

    def _check_health(self) -> None:
        """Fail a body that would wait, or spin, for ever."""
        if self.outcome is not None:
            return
        if self.loop.trespass is not None:
            self.outcome = Outcome(Status.FAILED, error=self.loop.trespass)
            note_undone(self, self.loop.trespass)
        elif self._spins():
            spinning = Spinning(
                f"run {self.run_id}: the body of workflow {self.workflow} yields to itself without end, while "
                "nothing it could wait for is pending (no turn may be that long); wait for a step, a timer or an "
                "asyncio primitive instead of looping over sleep(0)"
            )
            note_undone(self, spinning)
            self.outcome = Outcome(Status.FAILED, error=spinning)

    # -- replay --------------------------------------------------------------------

    def _replay(self, record: Record) -> bool:
        """Apply one recorded entry to the body as it stands; tell whether the body has something to see."""
        match record.kind:
            case Kind.STEP | Kind.CHILD | Kind.MESSAGE:
                return self._apply(record, *self._decode(record, self._match(record)))
            case Kind.LATE:
                late = self.calls.get(record.key)
                if late is None or late.done or late.withdrawn:
                    return False
                outcome = self._decode(record, self._match(record))
                if self.outcome is None:  # the code waits for it after all
                    return self._apply(record, *outcome)
                self._complete(late.future, record.key, *outcome)  # nobody sees it, but it is not to be had again
                return False
            case Kind.TIMER if record.key not in self.loop.timers:
                raise self._diverged(record, "no such timer is set")
            case Kind.START | Kind.ASK:
                self._match(record).begun = True
                return False
            case Kind.INTENT:
                pending = self._match(record)
                pending.intent, pending.resolution = record, None
                return False
            case Kind.RESOLUTION:
                self._match(record).resolution = record
                return False
            case Kind.ATTEMPT:
                self._match(record)
        return self._apply(record, None, None)

    def _match(self, record: Record) -> Pending:
        pending = self.calls.get(record.key)
        if pending is None or pending.done or (pending.withdrawn and record.kind in EVENTS):
            raise self._diverged(record, "the code makes no such call at this point")
        self._check_same(record, pending)
        return pending

    def _check_same(self, record: Record, pending: Pending) -> None:
        """Raise Diverged where the record speaks of another call than the code makes."""
        if not _fits(record.kind, pending):
            called = f"calls the {pending.call.definition.noun} {pending.name}"
            raise self._diverged(record, f"the code {'waits for a message' if pending.is_wait else called} here")
        if record.args is not None and pending.call.settings.check_args and record.args != pending.args:
            raise self._diverged(record, f"the code calls it with other arguments: {short(pending.args)}")

    def _decode(self, record: Record, pending: Pending) -> tuple[Any, BaseException | None]:
        if not record.ok:
            return None, self.codec.decode_error(record.value or b"")
        try:
            value = self.codec.decode(record.value or b"null", pending.call.definition.returns)
            wait = pending.call.definition if pending.is_wait else None
            return (wait.made_of(value) if isinstance(wait, Wait) else value), None
        except DecodingError as error:
            raise DecodingError(f"run {self.run_id}, {describe(record)}: {error}") from None

    def _diverged(self, record: Record, code: str) -> Diverged:
        if (error := self.body.raised()) is not None:
            code += f"; it {raised(error)}"
        waits = [pending.key for pending in self.waits_for()] + list(self.loop.timers)
        return differs(self.run_id, self.workflow, record, code, waits)

    # -- events ----------------------------------------------------------------------

    def _apply(self, record: Record, value: Any, error: BaseException | None) -> bool:
        """Complete what the entry speaks of; tell whether the body has something to see."""
        loop, kind = self.loop, record.kind
        if kind is Kind.ATTEMPT:
            pending = self.calls[record.key]
            pending.attempts.append(record)
            pending.intent = pending.resolution = None
            self._queue(pending)  # for the next attempt
            return pending.future.deliver_deferred()
        loop.now = max(loop.now, record.at)
        loop.seq = record.seq
        if kind is Kind.TIMER:
            timer = loop.timers.get(record.key)
            if timer is not None:
                loop.fire(timer)
        elif kind is Kind.CANCEL:
            self.cancel_asked = True
            if is_deadline(record):
                self.expired = record
            self.body.cancel()
        else:
            pending = self.calls.pop(record.key)
            pending.intent = pending.resolution = pending.encoded = None
            if pending.timer is not None:
                pending.timer.cancel()
            self._done.add(record.key)
            self._complete(pending.future, record.key, value, error)
        return True

    def _complete(self, future: CallFuture, key: str, value: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)
            return
        error = carried(error)
        self._culprits.remember(error, key)
        future.set_exception(error)
        future.exception()  # an outcome that the body never looks at is not worth a warning


def _fits(kind: Kind, pending: Pending) -> bool:
    """Tell whether a record of this kind can speak of this call."""
    match kind:
        case Kind.LATE:
            return True
        case Kind.MESSAGE | Kind.ASK:
            return pending.is_wait
        case Kind.CHILD | Kind.START:
            return pending.is_child
        case _:
            return pending.call.is_step
