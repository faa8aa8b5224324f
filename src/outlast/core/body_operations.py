"""What a workflow body asks of its run: the half of the engine that the body's code calls."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, cast

from outlast.core.body import Body, Outcome
from outlast.core.codec import Codec
from outlast.core.definitions import Call
from outlast.core.durabilities import Durability
from outlast.core.effects import InBody
from outlast.core.emissions import Emission
from outlast.core.errors import EncodingError, LostRun, TurnOver, WrongUse
from outlast.core.identity import check_identity, child_run_id, derive, here, recorded_args
from outlast.core.loop import RunLoop, RunTimer
from outlast.core.pending import CallFuture, Pending
from outlast.core.records import Effect, Kind, Record, RunRow
from outlast.core.sagas import Compensation
from outlast.core.turns import Continuation
from outlast.core.waits import Wait

if TYPE_CHECKING:
    from outlast.core.engine import Engine


class BodyOperations:
    """`outlast.core.effects.Operations`, on an engine that replays a journal and writes it on.

    Its methods are called by the body's code, in the midst of a turn.
    """

    row: RunRow
    run_id: str
    workflow: str

    @property
    def blocking(self) -> bool:
        return self.body.blocking

    codec: Codec
    body: Body
    loop: RunLoop
    closed: bool
    live: bool
    outcome: Outcome | None
    on_forgotten: Callable[[str], None]
    calls: dict[str, Pending]
    compensations: list[Compensation]
    continuation: Continuation | None
    durability: Durability
    withdrawn: list[Pending]
    _recorded: deque[Record]
    _patches: dict[str, bool]
    _starts: list[Pending]
    _done: set[str]
    note: Callable[..., Record]
    emitted: list[Emission]
    taken_up: int | None
    _turn_items: dict[str, tuple[int, int]]

    def issue(self, call: Call[Any]) -> CallFuture:
        """Take a call from the body. Raises EncodingError when its arguments cannot be stored."""
        self.check()
        return self._issue(call, *self._arguments(call))

    def issue_registered(self, undo: Compensation) -> CallFuture:
        """Take the call of a compensation, now that it is to be made."""
        self.check()
        future = self._issue(undo.call, undo.encoded, undo.args)
        future.pending.undoes = True
        future.pending.encoded = undo.encoded  # what the call holds may have changed since
        return future

    def compensate(self, call: Call[Any]) -> None:
        """Keep a call for when the body fails. Raises WrongUse for one that was made already."""
        self.check()
        self._take_back(call, "compensate", "makes it only when the run fails")
        self.compensations.append(Compensation(call, *self._arguments(call)))

    def continue_as(self, call: Call[Any]) -> NoReturn:
        """End the body's turn. Raises TurnOver, and WrongUse for a call that was made already."""
        self.check()
        self._take_back(call, "continue_as", "goes on as that call")
        try:
            encoded = self.codec.encode([list(call.args), call.kwargs])
        except EncodingError as refused:
            what = f"run {self.run_id} cannot continue as {call.definition.name}: an argument cannot be stored"
            raise type(refused)(f"{what}: {call.definition.say_argument(str(refused), whole=True)}") from None
        self.continuation = Continuation(call, encoded)
        raise TurnOver(f"run {self.run_id} continues as {call.definition.name}; let this pass")

    def _take_back(self, call: Call[Any], by: str, why: str) -> None:
        """Take back the call of a sync workflow, which issues it at once, as long as this turn has not started it."""
        pending = self.calls.get(call.key)
        if pending is not None and pending.cause == self.loop.seq and pending in self._starts and not call.detached:
            self._starts.remove(pending)
            del self.calls[call.key]
            call.future = None
        elif call.key in self.calls or call.key in self._done:
            raise WrongUse(
                f"run {self.run_id}: {call.key} was started before it was given to outlast.{by}, which {why}; make the "
                f"call in the argument: outlast.{by}({call.definition.name}(...))"
            )

    def _arguments(self, call: Call[Any]) -> tuple[bytes, bytes]:
        """Return the arguments of a call encoded, and as they are recorded. Raises EncodingError."""
        codec = self.codec
        if self.durability is not Durability.SYNC and call.settings.effect is Effect.ONCE:
            raise WrongUse(
                f"run {self.run_id}: {call.key} has effect='once', which durability={self.durability.value!r} cannot "
                f"keep: a crash may forget that it happened. Run the workflow with durability='sync' (the default)"
            )
        whole = call.kwargs or not call.is_step  # a child's arguments are its run's input
        args = [list(call.args), call.kwargs] if whole else list(call.args)
        try:
            encoded = codec.encode(args)
        except EncodingError as refused:
            what = f"the arguments of {call.key} in run {self.run_id} cannot be stored"
            why = call.definition.say_argument(str(refused), whole=bool(whole))
            raise type(refused)(f"{what}: {why}") from None
        return encoded, recorded_args(codec.comparable(args, encoded))

    def _issue(self, call: Call[Any], encoded: bytes, recorded: bytes) -> CallFuture:
        key = call.key
        if key in self.calls or key in self._done:
            raise RuntimeError(f"{call!r} was awaited before; call {call.definition.written} again for a new call")
        if not (call.is_step or isinstance(call.definition, Wait)):
            check_identity(key)
        future = CallFuture(loop=self.loop)
        pending = future.pending = Pending(cast("Engine", self), call, encoded, recorded, future)
        if isinstance(wait := call.definition, Wait):
            wait.issued(self.row.incarnation, key)
            if wait.timeout is not None:
                timer = RunTimer(self.loop.now + wait.timeout, self._too_late, (pending,), self.loop, None)
                pending.timer = self.loop.set_timer(f"{key}/!timeout", timer)
        self.calls[key] = pending
        pending.queued = True
        self._starts.append(pending)
        return future

    def forgot(self, call: Call[Any]) -> bool:
        if self.closed and self.outcome is None:
            return False  # the run was stopped from outside, and its code ended before it came to the await
        if self.live:
            self.on_forgotten(call.key)
        return True

    def _queue(self, pending: Pending) -> None:
        if not pending.queued:
            pending.queued = True
            self._starts.append(pending)

    def check(self) -> None:
        if self.closed:
            self.body.refuse()
        place = here.get()
        if not (type(place) is InBody and place.ops is self and self.body.is_here()):
            raise LostRun(
                f"an operation of run {self.run_id} was used outside of its workflow body (another thread, loop "
                "or context); "
                "await it in the body, or move the work into a step"
            )

    def block(self, future: asyncio.Future[Any]) -> Any:
        return self.body.block(future)  # type: ignore[attr-defined]

    def sleep(self, seconds: float) -> None:
        self.body.sleep(seconds)  # type: ignore[attr-defined]

    def now(self) -> float:
        return self.loop.now

    def timer(self, when: float) -> asyncio.Future[None]:
        """Return what is done at this time, in seconds since the epoch."""
        over = self.loop.create_future()
        handle = self.loop.call_at(when, wake, over)
        over.add_done_callback(lambda _: handle.cancel())
        return over

    def draw(self, name: str) -> str:
        """Derive a value; the stretch of a fork that was copied draws what its original drew."""
        for fork in self.row.forks:
            if self.loop.seq <= fork.upto:
                return derive(fork.incarnation, name)
        return derive(self.row.incarnation, name)

    def origin(self) -> str:
        """Return what a run shares with its forks: the first stretch of their journals is of one incarnation."""
        return derive(self.row.forks[0].incarnation if self.row.forks else self.row.incarnation, "origin")

    def child_id(self, call: Call[Any]) -> str:
        return call.child_id or child_run_id(self.run_id, self.row.incarnation, call.definition.name, call.key)

    def patched(self, key: str) -> bool:
        self.check()
        answer = self._patches.get(key)
        if answer is None:
            answer = not self._recorded
            if answer:
                self.note(Kind.PATCH, self.loop.now, key=key, name="patched")
            self._patches[key] = answer
        return answer

    def write(self, stream: str, value: Any) -> None:
        self.check()
        data = self._encode(value, f"an item for the stream {stream!r}")
        turn, first = self._turn_items.get(stream, (0, 0))
        first = first if turn == self.loop.seq else 0
        self._turn_items[stream] = self.loop.seq, first + 1
        self._emit(stream, data, True, first)

    def publish(self, name: str, value: Any) -> None:
        self.check()
        self._emit(name, self._encode(value, f"the value published as {name!r}"), False)

    def _emit(self, name: str, data: bytes, is_item: bool, first: int = 0) -> None:
        again = not self.live
        if not again or (self.taken_up is not None and self.loop.seq >= self.taken_up):
            self.emitted.append(Emission(name, data, is_item, self.loop.seq, self.loop.now, first, again))

    def _encode(self, value: Any, what: str) -> bytes:
        try:
            return self.codec.encode(value)
        except EncodingError as refused:
            raise type(refused)(f"{what}, workflow {self.workflow} of run {self.run_id}: {refused}") from None

    def _too_late(self, pending: Pending) -> None:
        """End a wait whose time is over."""
        if not pending.done:
            self._withdraw(pending)
            pending.future.set_exception(cast("Wait[Any]", pending.call.definition).too_late())
            pending.future.exception()  # the body may never look at it

    def _withdraw(self, pending: Pending) -> None:
        if not pending.withdrawn:
            pending.withdrawn = True
            pending.given_up = f"{pending.key} {self.loop.seq} {self.loop.now!r}"
            self.withdrawn.append(pending)
            if pending.is_wait:  # no record can speak of it any more
                self._done.add(pending.key)
                self.calls.pop(pending.key, None)
                if pending.timer is not None:
                    pending.timer.cancel()


def wake(over: asyncio.Future[None]) -> None:
    """End a wait for a timer."""
    if not over.done():
        over.set_result(None)
