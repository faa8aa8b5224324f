"""What the engine of a native workflow asks of its body, and what it goes by."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from outlast.core.body import Body
from outlast.core.codec import Codec
from outlast.core.definitions import Call
from outlast.core.pending import Pending
from outlast.core.records import Kind, Record
from outlast.core.waits import Wait


class NativeBody(Body, Protocol):
    """What executes a native body."""

    loop: asyncio.AbstractEventLoop

    def soon(self, act: Callable[[], None]) -> None:
        """Call `act` in the loop's next turn."""
        ...

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Call `act` after a time."""
        ...

    def has_timers(self) -> bool:
        """Tell whether code of the body waits for time to pass, by itself."""
        ...

    def hand_over(self, begin: Callable[[], asyncio.Future[Any]]) -> asyncio.Future[Any]:
        """Issue a call on the loop, for code in another thread."""
        ...

    def block(self, future: asyncio.Future[Any]) -> Any:
        """Wait in another thread than the loop's."""
        ...


def is_of_io(error: BaseException) -> bool:
    """Tell whether an error came of I/O: it, one of its group, or one that it was raised for, is an OSError."""
    seen: set[int] = set()
    errors = [error]
    while errors:
        one = errors.pop()
        if isinstance(one, OSError):  # a TimeoutError is one, too
            return True
        if id(one) not in seen:
            seen.add(id(one))
            errors += one.exceptions if isinstance(one, BaseExceptionGroup) else ()
            errors += [cause for cause in (one.__cause__, one.__context__) if cause is not None]
    return False


def content_of(codec: Codec, call: Call[Any], recorded: bytes) -> bytes:
    """Return what tells a call from others of its name."""
    if isinstance(call.definition, Wait):
        return call.definition.content(codec)
    return recorded if call.settings.check_args else b""


def attach(note: Record, pending: Pending) -> None:
    """Tell a call what is recorded of its attempts."""
    match note.kind:
        case Kind.INTENT:
            pending.intent, pending.resolution = note, None
        case Kind.RESOLUTION:
            pending.resolution = note
        case Kind.ATTEMPT:
            pending.attempts.append(note)
            pending.intent = pending.resolution = None
        case _:
            pending.begun = True
