"""A rig that plays the runtime's part for one engine, one deed at a time.

rig = Rig(body).begin()
rig.waiting                      # ["main/fetch#1"]
rig.finish("main/fetch#1", 42)   # records the outcome and gives it to the body
rig.replay().outcome             # the same body, from the records alone
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from outlast.core.body import AsyncBody, Outcome
from outlast.core.definitions import AsyncStep, Step, SyncStep
from outlast.core.engine import Engine
from outlast.core.pending import Pending
from outlast.core.records import Effect, Fork, Kind, Record, RunRow
from outlast.core.settings import Settings
from outlast.core.transitions import Status
from outlast.core.workflows import Workflow
from tests.support.plain_codec import PlainCodec

Body = Callable[[], Coroutine[Any, Any, Any]]
STARTED = 1_000.0


def a_step(name: str, fn: Callable[..., Any] | None = None, **settings: Any) -> Any:
    """Return an async step that no rig ever calls: rigs say what came of it."""

    async def plain(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError(f"{name} was called as a plain function")

    return AsyncStep(fn or plain, name, Settings().with_(**settings))


def a_sync_step(name: str, **settings: Any) -> Any:
    """Return a sync step that no rig ever calls."""

    def plain(*args: Any) -> Any:
        raise AssertionError(f"{name} was called as a plain function")

    step: Step[..., Any] = SyncStep(plain, name, Settings().with_(**settings))
    return step


def a_workflow(name: str) -> Any:
    """Return a workflow to be called as a child."""

    async def plain(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError(f"{name} was called as a plain function")

    return Workflow(plain, name)


class Rig:
    """See the top of this file. `now` is the store's clock."""

    def __init__(
        self,
        body: Body,
        records: Sequence[Record] = (),
        *,
        forks: tuple[Fork, ...] = (),
        incarnation: str = "incarnation",
        engine: type[Engine] = Engine,
    ) -> None:
        self.body = body
        self.now = max([STARTED, *(record.at for record in records)])
        self.records = list(records)
        self.starts: list[str] = []  # identities of the calls whose next attempt was asked for
        self.given_up: list[str] = []
        row = RunRow(
            pk=1, id="run-1", incarnation=incarnation, workflow="flow", created=STARTED, started=STARTED, forks=forks
        )
        self.codec = PlainCodec()
        self.engine = engine(row, self.records, self.codec, AsyncBody(body))

    def begin(self) -> Rig:
        self.engine.begin()
        self.after_turn()
        return self

    def __del__(self) -> None:
        self.engine.stop()  # or the garbage collector would run what waits in it

    def replay(self, upto: int | None = None, body: Body | None = None) -> Rig:
        """Return a rig whose engine has replayed this one's records (the first `upto` of them)."""
        row = self.engine.row
        return Rig(body or self.body, self.records[:upto], forks=row.forks, incarnation=row.incarnation).begin()

    def after_turn(self) -> None:
        engine = self.engine
        self.records += engine.unsent
        engine.unsent = []
        self.given_up += [pending.key for pending in engine.take_withdrawn()]
        self.starts += [pending.key for pending in engine.take_starts()]

    # -- what can be seen ----------------------------------------------------------

    @property
    def waiting(self) -> list[str]:
        """The identities of the calls that the body waits for, in order of issue."""
        return [pending.key for pending in self.engine.waits_for()]

    @property
    def timers(self) -> dict[str, float]:
        """Seconds from the run's start to each timer that is set."""
        return {key: timer.when() - STARTED for key, timer in self.engine.loop.timers.items()}

    @property
    def outcome(self) -> Outcome | None:
        """How the run ended. Raises what keeps it from going on."""
        if self.engine.failure is not None:
            raise self.engine.failure
        return self.engine.outcome

    @property
    def result(self) -> Any:
        """What the body returned; raises what it raised."""
        outcome = self.outcome
        assert outcome is not None, f"the run has not ended; it waits for {self.waiting}, {self.timers}"
        if outcome.error is not None:
            raise outcome.error
        assert outcome.status is Status.SUCCEEDED
        return outcome.value

    # -- what can be done ------------------------------------------------------------

    def finish(self, key: str, value: Any = None, error: BaseException | None = None, *, live: Any = None) -> None:
        """A call's outcome arrives: an event when the body waits for it, else a late record."""
        pending = self.engine.calls[key]
        late = pending.withdrawn or self.engine.outcome is not None
        kind = Kind.LATE if late else Kind.CHILD if pending.is_child else Kind.STEP
        data = self.codec.encode(value) if error is None else self.codec.encode_error(error)
        record = self._record(kind, pending, ok=error is None, value=data)
        if late:
            pending.intent = None
        elif error is not None:
            self.engine.deliver(record, None, self.codec.decode_error(data))
        else:
            self.engine.deliver(record, self.codec.decode(data) if live is None else live)
        self.after_turn()

    def fire(self) -> str:
        """Let the next timer fire when it is due; return its identity."""
        timer = self.engine.next_timer()
        assert timer is not None, "no timer is set"
        self.now = max(self.now, timer.when())
        event = self.engine.event(
            Kind.TIMER, self.now, key=timer.key, name="timer", due=timer.when(), cause=timer.cause
        )
        self.engine.deliver(event)
        self.after_turn()
        return timer.key

    def message(self, key: str, value: Any) -> None:
        """A message arrives for the wait of this identity."""
        pending = self.engine.calls[key]
        data = self.codec.encode(value)
        event = self.engine.event(Kind.MESSAGE, self.now, key=key, name="message", value=data, cause=pending.cause)
        self.engine.deliver(event, self.codec.decode(data))
        self.after_turn()

    def cancel(self) -> None:
        """A cancellation of the run arrives."""
        self.engine.deliver(self.engine.event(Kind.CANCEL, self.now, key="", name="cancel"))
        self.after_turn()

    def intend(self, key: str) -> None:
        """An attempt of a `once` step is about to begin."""
        pending = self.engine.calls[key]
        pending.intent = self._note(Kind.INTENT, pending, due=self.now + 60)
        self.after_turn()

    def begin_child(self, key: str) -> None:
        """A child run is about to be started."""
        pending = self.engine.calls[key]
        if not pending.begun:
            pending.begun = True
            self._note(Kind.START, pending)
            self.after_turn()

    def fail_attempt(self, key: str, error: BaseException | None = None, *, delay: float = 1.0) -> None:
        """An attempt ends without an outcome; the next is due after `delay`."""
        pending = self.engine.calls[key]
        value = None if error is None else self.codec.encode_error(error)
        self.engine.deliver(self._record(Kind.ATTEMPT, pending, ok=False, value=value, due=self.now + delay))
        self.after_turn()

    def _record(self, kind: Kind, pending: Pending, **fields: Any) -> Record:
        number = len(pending.attempts) + 1
        effect = "" if pending.is_child else Effect(pending.effect).value
        return self.engine.event(
            kind, self.now, key=pending.key, name=pending.name, args=pending.args, attempt=number, effect=effect,
            started=self.now, ended=self.now, cause=pending.cause, **fields,
        )  # fmt: skip

    _note = _record

    # -- what must hold after any of it ---------------------------------------------

    def must_replay(self) -> Rig:
        """Check that the records alone bring a fresh body to where this one is, and that every prefix replays."""
        for upto in range(len(self.records)):
            assert self.replay(upto).engine.failure is None
        again = self.replay()
        assert again.engine.failure is None
        assert again.waiting == self.waiting
        assert again.timers == self.timers
        assert repr(again.outcome) == repr(self.outcome)
        assert again.engine.loop.now == self.engine.loop.now
        return again
