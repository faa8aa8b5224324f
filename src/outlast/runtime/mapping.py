"""`outlast.map`: one call for each of many items, so many at a time, and what becomes of all when some fail."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, NoReturn, TypeVar, overload

from outlast.core.amounts import is_whole
from outlast.core.definitions import AsyncStep, Call, Step, SyncStep
from outlast.core.effects import InBody
from outlast.core.errors import WrongUse
from outlast.core.identity import placed
from outlast.core.workflows import Workflow
from outlast.runtime.operations import body_here

T = TypeVar("T")
R = TypeVar("R")

Many = Coroutine[Any, Any, list[R]]
Some = Coroutine[Any, Any, list[R | Exception]]


@overload
def map(
    fn: AsyncStep[[T], R] | Workflow[[T], R] | SyncStep[[T], R],
    items: Iterable[T],
    /,
    *,
    limit: int | None = None,
    min_successful: None = None,
) -> Many[R]: ...


@overload
def map(
    fn: AsyncStep[[T], R] | Workflow[[T], R] | SyncStep[[T], R],
    items: Iterable[T],
    /,
    *,
    limit: int | None = None,
    min_successful: int,
) -> Some[R]: ...


@overload
def map(
    fn: Callable[[T], Call[R]], items: Iterable[T], /, *, limit: int | None = None, min_successful: None = None
) -> Many[R]: ...


@overload
def map(
    fn: Callable[[T], Call[R]], items: Iterable[T], /, *, limit: int | None = None, min_successful: int
) -> Some[R]: ...


def map(
    fn: Any, items: Iterable[Any], /, *, limit: int | None = None, min_successful: int | None = None
) -> Coroutine[Any, Any, list[Any]]:
    """Call a step, or a workflow as child runs, with each of the items; return the results in the items' order.

    `fn` may also be a function of one item that returns such a Call: `lambda city: fetch(city, retries=3)`. `limit`:
    so many are under way at a time; by default all. The calls belong to a branch of their own and are numbered by
    the items' places: `main.map#1/fetch#3` is the third.

    The first error cancels the rest, and is raised when all of them have ended. With `min_successful`, errors stand
    in the result in the places of what failed, as long as that many succeed; when no longer so many can, the rest
    is cancelled and an ExceptionGroup of the errors is raised. Raises WrongUse outside of a workflow.
    """
    place = body_here("map()")
    if place.ops.blocking:
        raise WrongUse("outlast.map is awaited; in a sync workflow write outlast.sync.map(...)")
    items = checked(items, limit, min_successful)
    inside = branch_of_map(place)
    return _map(inside, [call_for(inside, fn, item) for item in items], limit, min_successful)


def checked(items: Iterable[Any], limit: int | None, min_successful: int | None) -> list[Any]:
    """Return the items. Raises WrongUse for limits that make no sense."""
    listed = list(items)
    if limit is not None and not (is_whole(limit) and limit > 0):
        raise WrongUse(f"limit={limit!r}: must be a whole number above 0, or None")
    if min_successful is not None and not (is_whole(min_successful) and 0 <= min_successful <= len(listed)):
        raise WrongUse(
            f"min_successful={min_successful!r}: must be a whole number from 0 to that of the items, {len(listed)}"
        )
    return listed


def branch_of_map(place: InBody) -> InBody:
    """Return where the calls of one `map` are made: in a branch that has no others."""
    return InBody(place.ops, place.branch.current().task("map"))


def call_for(inside: InBody, fn: Any, item: Any) -> Call[Any]:
    """Make the call for one item. Raises WrongUse where it is none."""
    make: Callable[[Any], Any] = fn.call if isinstance(fn, SyncStep) else fn
    with placed(inside):
        call = make(item)
    if not isinstance(call, Call):
        raise WrongUse(
            f"outlast.map takes a step, a workflow, or a function of one item that returns a call of one, not {fn!r}"
        )
    return call


class _Tally:
    """How many calls are still under way, and how many more may fail."""

    def __init__(self, count: int, may_fail: int) -> None:
        self._left = count
        self._may_fail = may_fail
        self.first: Exception | None = None
        self.over = asyncio.Event()
        if not count:
            self.over.set()

    def ended(self, error: Exception | None) -> None:
        self._left -= 1
        if error is not None:
            self.first = self.first or error
            self._may_fail -= 1
        if not self._left or self._may_fail < 0:
            self.over.set()

    @property
    def too_many_failed(self) -> bool:
        return self._may_fail < 0


async def _map(inside: InBody, calls: Sequence[Call[Any]], limit: int | None, min_successful: int | None) -> list[Any]:
    tally = _Tally(len(calls), 0 if min_successful is None else len(calls) - min_successful)
    turns = asyncio.Semaphore(len(calls) if limit is None else limit)
    with placed(inside):
        tasks = [asyncio.create_task(_one(call, turns, tally)) for call in calls]
    try:
        await tally.over.wait()
    finally:
        left = [task for task in tasks if not task.done()]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)
        for call in calls:
            call.take()  # one that it has not come to was not forgotten
    outcomes = [task.result() for task in tasks if not task.cancelled()]
    if tally.too_many_failed:
        raise_failure(tally.first, [error for _, error in outcomes if error is not None], len(calls), min_successful)
    return [value if error is None else error for value, error in outcomes]


async def _one(call: Call[Any], turns: asyncio.Semaphore, tally: _Tally) -> tuple[Any, Exception | None]:
    async with turns:
        value, failure = None, None
        try:
            value = await call
        except Exception as error:  # noqa: BLE001 - whatever a step raises is how it ended
            failure = error
        tally.ended(failure)
        return value, failure


def raise_failure(first: Exception | None, errors: list[Exception], count: int, min_successful: int | None) -> NoReturn:
    """Raise what a `map` ends with of which too many calls have failed."""
    if min_successful is None:
        assert first is not None
        raise first
    raise ExceptionGroup(
        f"outlast.map: of {count} calls {len(errors)} failed, and {min_successful} had to succeed", errors
    )


def map_blocking(
    fn: Step[[T], R] | Workflow[[T], R] | Callable[[T], Call[R]],
    items: Iterable[T],
    /,
    *,
    limit: int | None = None,
    min_successful: int | None = None,
) -> list[Any]:
    """In a sync workflow: call a step, or a workflow as child runs, with each of the items; see `outlast.map`.

    Outcomes are looked at in the items' order, so of several errors the first one in that order counts.
    """
    place = body_here("sync.map()")
    if not place.ops.blocking:
        raise WrongUse("outlast.sync.map blocks; in an async workflow write: await outlast.map(...)")
    rest = deque(checked(items, limit, min_successful))
    count, inside = len(rest), branch_of_map(place)
    may_fail = 0 if min_successful is None else count - min_successful
    window: deque[asyncio.Future[Any]] = deque()
    results: list[Any] = []
    errors: list[Exception] = []
    try:
        while window or rest:
            while rest and (limit is None or len(window) < limit):
                call = call_for(inside, fn, rest.popleft())
                window.append(call.future if call.future is not None else call.start())
            try:
                results.append(place.ops.block(window[0]))
            except Exception as error:  # noqa: BLE001 - whatever a step raises is how it ended
                results.append(error)
                errors.append(error)
            window.popleft()
            if len(errors) > may_fail:
                raise_failure(errors[0], errors, count, min_successful)
    finally:
        for future in window:
            future.cancel()
    return results
