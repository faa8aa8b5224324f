"""What a body can wait for that comes from outside of its run: a message, or a person's answer."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple, TypeVar

from outlast.core.codec import Codec
from outlast.core.definitions import Call
from outlast.core.functions import Definition
from outlast.core.loop import RunTask
from outlast.core.records import InboxRow

R = TypeVar("R")


class Taken(NamedTuple):
    """What a message is to the body that waited for it: what is recorded, and the value or the error that it gets."""

    recorded: bytes
    value: Any
    error: BaseException | None


class Wait(Definition[[], R]):
    """A wait for the next message in a mailbox of the run: what a `Call` is made of, though it has no function.

    `name` is what identities are made of (`!receive`), `mailbox` the name of the messages, `returns` the type that
    they are decoded to, `timeout` the seconds until it is over with TimeoutError (None: never). `kind` is
    what comes, `message` or `approval`.
    """

    noun = "wait"
    kind = "message"

    def __init__(  # there is no function whose name and signature could be taken
        self, name: str, mailbox: str, returns: Any = Any, timeout: float | None = None
    ) -> None:
        self.name = name
        self.mailbox = mailbox
        self.returns = returns
        self.timeout = timeout

    def __repr__(self) -> str:
        return f"<wait for a message {self.mailbox!r}>"

    def issued(self, incarnation: str, key: str) -> None:
        """Hear of which incarnation of a run, and under which identity, it was issued: live, and on each replay.

        Raises WrongUse.
        """

    def content(self, codec: Codec) -> bytes:
        """Return what tells it from other waits, where identities do not come in order. Raises EncodingError."""
        return b""

    @property
    def label(self) -> str:
        """The name under which its message is recorded."""
        return self.mailbox

    def says(self) -> str:
        """Return what is waited for, for people."""
        return f"a message {self.mailbox!r}"

    def read(self, codec: Codec, row: InboxRow) -> Taken:
        """Return what a message is. Raises DecodingError, EncodingError where it does not fit."""
        raise NotImplementedError

    def made_of(self, value: Any) -> Any:
        """Return what the body gets for a value as it was recorded."""
        return value

    def too_late(self) -> TimeoutError:
        """Return the error with which a wait ends whose time is over."""
        return TimeoutError(f"no message {self.mailbox!r} came within {self.timeout:g} s")


def is_awaited(future: asyncio.Future[Any]) -> bool:
    """Tell whether code waits for a future now.

    A task that was made of a call, and that nobody awaits any more, such as the loser of a race that was not
    cancelled, does not count.
    """
    for callback, _ in future._callbacks or ():
        task = getattr(callback, "__self__", None)
        if not (isinstance(task, RunTask) and isinstance(task.get_coro(), Call) and not task._callbacks):
            return True
    return False
