"""A call that was issued and what a body waits on for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any

from outlast.core.definitions import Call
from outlast.core.errors import StepError
from outlast.core.frames import keep_where, where_of
from outlast.core.loop import RunTimer
from outlast.core.records import Record
from outlast.core.telling import text_of_error
from outlast.core.waits import Wait

if TYPE_CHECKING:
    from outlast.core.engine import Engine


class CallFuture(asyncio.Future[Any]):
    """What a body waits on for a call. Once a `once` attempt may have begun, a cancellation waits for its outcome.

    `deferred` is set while one waits; `message` is the one given to `cancel`, by which some frameworks know their own.
    """

    pending: Pending
    deferred = False
    message: Any = None

    def cancel(self, msg: Any = None) -> bool:
        if self.done():
            return False
        if self.pending.intent is not None and not self.pending.engine.closed:
            self.deferred = True
            self.message = msg
            return True
        self.pending.engine._withdraw(self.pending)
        return super().cancel(msg)

    def __await__(self) -> Any:
        if not self.done():
            self._asyncio_future_blocking = True
            try:
                yield self
            except Exception:  # a task throws its future's error in here
                if not self.deferred:
                    raise
        if self.deferred:
            self.deferred = False  # the outcome is in the journal; here the cancellation takes its place
            raise asyncio.CancelledError(*() if self.message is None else (self.message,))
        return self.result()

    def deliver_deferred(self) -> bool:
        """Let a cancellation that waited take effect, now that the attempt has ended without an outcome."""
        if not self.deferred:
            return False
        self.deferred = False
        return self.cancel(self.message)


def carried(error: BaseException) -> Exception:
    """Return an error as a future can carry it: what would end a coroutine, or the process, becomes a StepError."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    kind = type(error)
    name = f"{kind.__module__}:{kind.__qualname__}"
    text = text_of_error(error)
    told = StepError(f"{name}: {text}", type_name=name, text=text)
    keep_where(told, where_of(error))
    return told


class Pending:
    """A call that was issued: what was asked, and all that is known of its attempts."""

    __slots__ = (
        "args",
        "attempts",
        "begun",
        "call",
        "cause",
        "effect",
        "encoded",
        "engine",
        "future",
        "given_up",
        "intent",
        "is_child",
        "is_wait",
        "issued",
        "key",
        "name",
        "queued",
        "resolution",
        "timer",
        "undoes",
        "withdrawn",
    )

    def __init__(self, engine: Engine, call: Call[Any], encoded: bytes, args: bytes, future: CallFuture) -> None:
        self.engine = engine
        self.call = call
        self.key = call.key
        self.name = call.definition.name
        self.is_wait = isinstance(call.definition, Wait)
        self.is_child = not call.is_step and not self.is_wait
        self.effect = call.settings.effect
        self.args = args  # as they are recorded
        self.encoded: bytes | None = encoded if self.is_child or not _is_plain(call) else None  # until it is done
        self.future = future
        self.cause = engine.loop.seq
        self.issued = engine.loop.now
        self.attempts: list[Record] = []
        self.intent: Record | None = None  # of an attempt that has no outcome yet
        self.resolution: Record | None = None
        self.begun = False  # its child run is started, and that is recorded
        self.queued = False  # for `take_starts`
        self.timer: RunTimer | None = None  # that ends the wait
        self.undoes = False  # it is a compensation
        self.withdrawn = False  # nobody waits for it any more
        self.given_up = ""  # then: in the turn of which event, which is the same in every replay

    @property
    def done(self) -> bool:
        return self.future.done()

    @property
    def effect_begun(self) -> str:
        """The effect of the attempt that was begun: its intent's, whatever a deploy has made of the step since."""
        return self.effect if self.intent is None else self.intent.effect

    def arguments(self) -> tuple[Sequence[Any], dict[str, Any]]:
        """Return the arguments as they were when the call was made.

        What one attempt does to them no other sees, nor the body. Raises DecodingError.
        """
        call = self.call
        if self.encoded is None:
            return call.args, call.kwargs
        decoded = self.engine.codec.decode(self.encoded, call.definition.input_type)
        return decoded if call.kwargs else (decoded, {})


_PLAIN = frozenset({str, int, float, bool, bytes, NoneType})


def _is_plain(call: Call[Any]) -> bool:
    """Whether nothing in the arguments can change."""
    return _PLAIN.issuperset(map(type, call.args)) and _PLAIN.issuperset(map(type, call.kwargs.values()))
