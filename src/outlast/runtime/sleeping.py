"""`outlast.sleep_until`: a sleep that ends at a moment instead of after a time."""

from __future__ import annotations

import asyncio
import datetime as dt

from outlast.core.definitions import AsyncStep
from outlast.core.effects import InBody
from outlast.core.errors import WrongUse
from outlast.core.identity import here
from outlast.core.lost import refuse_lost
from outlast.core.native_scopes import NativeBranch
from outlast.core.settings import Settings
from outlast.runtime.clock import SystemClock
from outlast.runtime.moments import seconds_of

MOST_AT_ONCE_S = 30.0  # outside of a run: clocks can be set meanwhile

_clock = SystemClock()


async def _first_said(seconds: float) -> float:
    return seconds


_until: AsyncStep[[float], float] = AsyncStep(
    _first_said, "sleep_until", Settings().with_(effect="pure", check_args=False)
)
"""Records until when a native body sleeps. What it reckons that from may be the clock, which says more each time that
it is executed: by what it reckons later it would never have slept long enough."""


async def sleep_until(when: dt.datetime) -> None:
    """Sleep until a moment, an aware datetime; one that is past is no wait.

    In a workflow it is durable, like `asyncio.sleep`: the run parks, and whoever takes it up sleeps until the same
    moment. Elsewhere it is a plain sleep. `outlast.sync.sleep_until` is for sync workflows. Raises WrongUse for a
    datetime without a time zone.
    """
    seconds = seconds_of(when, "outlast.sleep_until")
    place = here.get()
    if place is None:
        refuse_lost("outlast.sleep_until")
    if not isinstance(place, InBody):
        while (left := seconds - _clock.wall()) > 0:  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(min(left, MOST_AT_ONCE_S))
        return
    place.ops.check()
    if place.ops.blocking:
        raise WrongUse("outlast.sleep_until is awaited; in a sync workflow write outlast.sync.sleep_until(...)")
    if seconds <= place.ops.now():
        await asyncio.sleep(0)
        return
    if isinstance(place.branch, NativeBranch):
        seconds = await _until(seconds)
    await place.ops.timer(seconds)


def sleep_until_blocking(when: dt.datetime) -> None:
    """Sleep until a moment, an aware datetime: durably in a sync workflow, plainly elsewhere.

    Raises WrongUse for a datetime without a time zone, and in an async workflow.
    """
    seconds = seconds_of(when, "outlast.sync.sleep_until")
    place = here.get()
    if place is None:
        refuse_lost("outlast.sync.sleep_until")
    if isinstance(place, InBody):
        place.ops.check()
        if not place.ops.blocking:
            raise WrongUse("outlast.sync.sleep_until blocks; in an async workflow: await outlast.sleep_until(...)")
        if (left := seconds - place.ops.now()) > 0:
            place.ops.sleep(left)
        return
    while (left := seconds - _clock.wall()) > 0:
        _clock.sleep(min(left, MOST_AT_ONCE_S))
