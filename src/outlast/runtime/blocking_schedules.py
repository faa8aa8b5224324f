"""`outlast.sync`'s face of a schedule: the same methods, blocking."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from outlast.core.definitions import Call
from outlast.runtime.app import App
from outlast.runtime.loop_beside import LoopBeside
from outlast.runtime.run import Run
from outlast.runtime.schedules import Schedule as AsyncSchedule
from outlast.runtime.schedules import ScheduleInfo
from outlast.runtime.slots import CatchUp, Overlap

Handle = TypeVar("Handle")
T = TypeVar("T")


class Schedule(Generic[Handle]):
    """A handle on one schedule; see `outlast.Schedule`, whose methods these are, blocking."""

    def __init__(self, schedule: AsyncSchedule, loop: LoopBeside, run: Callable[[Run[Any]], Handle]) -> None:
        self._schedule = schedule
        self._loop = loop
        self._run = run  # makes the blocking face of a run

    def __repr__(self) -> str:
        return repr(self._schedule)

    @property
    def name(self) -> str:
        """The schedule's name."""
        return self._schedule.name

    def info(self) -> ScheduleInfo:
        """See `outlast.Schedule.info`."""
        return self._loop.wait(self._schedule.info())

    def upcoming(self, count: int = 5) -> list[dt.datetime]:
        """See `outlast.Schedule.upcoming`."""
        return self._loop.wait(self._schedule.upcoming(count))

    def pause(self) -> None:
        """See `outlast.Schedule.pause`."""
        self._loop.wait(self._schedule.pause())

    def resume(self) -> None:
        """See `outlast.Schedule.resume`."""
        self._loop.wait(self._schedule.resume())

    def delete(self) -> None:
        """See `outlast.Schedule.delete`."""
        self._loop.wait(self._schedule.delete())

    def trigger(self, *, id: str | None = None) -> Handle:
        """See `outlast.Schedule.trigger`."""
        return self._run(self._loop.wait(self._schedule.trigger(id=id)))

    def backfill(self, start: dt.datetime, end: dt.datetime) -> list[Handle]:
        """See `outlast.Schedule.backfill`."""
        return [self._run(run) for run in self._loop.wait(self._schedule.backfill(start, end))]


class SchedulesOfApp(Generic[Handle]):
    """What `outlast.sync.App` has for schedules."""

    _app: App
    _loop: LoopBeside | None

    def _wait(self, coro: Coroutine[Any, Any, T]) -> T:
        raise NotImplementedError

    def _run(self, run: Run[Any]) -> Handle:
        raise NotImplementedError

    def schedule(
        self,
        name: str,
        call: Call[Any],
        *,
        cron: str | None = None,
        every: float | dt.timedelta | None = None,
        timezone: str = "UTC",
        catch_up: CatchUp = "one",
        catch_up_limit: int = 100,
        grace: float = 60.0,
        overlap: Overlap = "skip",
        paused: bool | None = None,
    ) -> Schedule[Handle]:
        """See `outlast.App.schedule`."""
        if isinstance(call, Call):
            call.take()  # whatever becomes of it here, it was not forgotten
        made = self._app.schedule(
            name, call, cron=cron, every=every, timezone=timezone, catch_up=catch_up, catch_up_limit=catch_up_limit,
            grace=grace, overlap=overlap, paused=paused,
        )  # fmt: skip
        return self._made(self._wait(made))

    def get_schedule(self, name: str) -> Schedule[Handle]:
        """See `outlast.App.get_schedule`."""
        return self._made(self._wait(self._app.get_schedule(name)))

    def schedules(self) -> list[Schedule[Handle]]:
        """See `outlast.App.schedules`."""
        return [self._made(schedule) for schedule in self._wait(self._app.schedules())]

    def _made(self, schedule: AsyncSchedule) -> Schedule[Handle]:
        assert self._loop is not None
        return Schedule(schedule, self._loop, self._run)
