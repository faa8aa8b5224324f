"""The futures of a run's loop: they hash by order, not by address, so that sets of them iterate alike everywhere.

asyncio itself puts what it is given into sets (`wait`, `as_completed`). Most futures come from the loop; the one that
`gather` returns makes itself, and is caught in the act. A future that a body makes by hand (`asyncio.Future()`) is of
no class that could be given an order, so it is refused where asyncio would put it among others into a set.
"""

from __future__ import annotations

import asyncio
from types import FrameType
from typing import Any

from outlast.core.effects import InBody
from outlast.core.errors import NotDeterministic
from outlast.core.identity import here


class Ordered:
    """Hashes by the order in which its branch first put futures into sets."""

    _ordinal: int | None = None

    def __hash__(self) -> int:
        if self._ordinal is None:
            place = here.get()
            self._ordinal = place.branch.ordinal() if isinstance(place, InBody) else 0
        return self._ordinal


class RunFuture(Ordered, asyncio.Future[Any]):
    """A future that the loop makes."""


class RunGather(Ordered, asyncio.tasks._GatheringFuture):  # type: ignore[name-defined,misc]
    """What `asyncio.gather` returns."""


_GATHER = asyncio.tasks._GatheringFuture.__init__.__code__  # type: ignore[attr-defined]
_WAIT = asyncio.tasks._wait.__code__  # type: ignore[attr-defined]
_iterator: Any = getattr(asyncio.tasks, "_AsCompletedIterator", None)  # from Python 3.13 on
_AS_COMPLETED = asyncio.as_completed.__code__ if _iterator is None else _iterator.__init__.__code__


def order_gather(frame: FrameType) -> None:
    """Give a future an order if it is the one of `gather` and is making itself in this frame."""
    if frame.f_code is _GATHER:
        made = frame.f_locals["self"]
        if type(made) is not RunGather:
            made.__class__ = RunGather


def check_set(frame: FrameType, done: tuple[Any, ...] = ()) -> None:
    """Refuse futures made by hand where asyncio, in this frame, has put them into a set whose order it goes by.

    `wait` hands them out in sets; `as_completed` goes by its set where they are `done` already.
    """
    name, futures = "", done
    if frame.f_code is _WAIT:
        name, futures = "wait", tuple(frame.f_locals["fs"])
    elif frame.f_code is _AS_COMPLETED and done:
        name = "as_completed"
    if name and any(_by_address(each) for each in futures) and (name != "wait" or len(futures) > 1):
        raise NotDeterministic(
            f"asyncio.{name} would take a future or task made by hand in no fixed order; in a workflow body make it by "
            "asyncio.get_running_loop().create_future(), or asyncio.create_task(...)"
        )


def _by_address(future: Any) -> bool:
    own: Any = type(future).__hash__
    return own is object.__hash__
