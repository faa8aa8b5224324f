"""`outlast schedules`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated, Any

import typer

from outlast.cli.opening import Where, with_store
from outlast.cli.options import AppName, Json, Url
from outlast.cli.output import print_json, print_line, print_table
from outlast.cli.wording import ago
from outlast.core.errors import WrongUse
from outlast.runtime.app import App
from outlast.runtime.schedules import Schedule, ScheduleInfo

COLUMNS = ("schedule", "workflow", "when", "next", "started", "waiting", "skipped", "missed", "last run")


class Action(StrEnum):
    """What can be done with a schedule."""

    LIST = "list"
    SHOW = "show"
    PAUSE = "pause"
    RESUME = "resume"
    TRIGGER = "trigger"
    BACKFILL = "backfill"
    DELETE = "delete"


def schedules(
    action: Annotated[Action, typer.Argument(help="What to do.")] = Action.LIST,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The schedule.", show_default=False)] = None,
    start: Annotated[str | None, typer.Option("--start", metavar="TIME", help="backfill: the first moment.")] = None,
    end: Annotated[str | None, typer.Option("--end", metavar="TIME", help="backfill: up to here, without.")] = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=1000, help="show: so many of its next slots.")] = 5,
    id: Annotated[str | None, typer.Option("--id", help="trigger: the run's id.")] = None,
    url: Url = None,
    app_name: AppName = None,
    as_json: Json = False,
) -> None:
    """List schedules, and pause, resume, trigger, backfill or delete one.

    A trigger starts a run now and uses up no slot. A backfill starts the
    runs of the slots in a stretch of the past, save of those that have
    theirs. Times are ISO, with a zone: 2026-03-01T00:00:00+01:00.

    \b
    outlast schedules
    outlast schedules show nightly
    outlast schedules pause nightly
    outlast schedules backfill nightly --start 2026-03-01T00:00Z --end 2026-03-08T00:00Z
    """
    if (name is None) != (action is Action.LIST):
        raise WrongUse("outlast schedules list takes no NAME" if name else f"outlast schedules {action} needs a NAME")
    if action is not Action.BACKFILL and (start or end):
        raise WrongUse("--start and --end belong to: outlast schedules backfill NAME")
    if id is not None and action is not Action.TRIGGER:
        raise WrongUse("--id belongs to: outlast schedules trigger NAME")
    where = Where(url, app_name)
    if name is None:
        _list(where, as_json=as_json)
        return
    stretch = (_moment(start, "--start"), _moment(end, "--end")) if action is Action.BACKFILL else None

    async def act(app: App) -> tuple[str, dict[str, Any]]:
        schedule = await app.get_schedule(name)
        return await _act(schedule, action, stretch, count, id)

    said, data = with_store(where, act)
    if as_json:
        print_json({"schedule": name} | data)
    else:
        print_line(said)


async def _act(
    schedule: Schedule, action: Action, stretch: tuple[dt.datetime, dt.datetime] | None, count: int, id: str | None
) -> tuple[str, dict[str, Any]]:
    """Do it; return what to say, and the same for JSON."""
    name = schedule.name
    match action:
        case Action.PAUSE:
            await schedule.pause()
            return f"schedule {name} is paused", {"paused": True}
        case Action.RESUME:
            await schedule.resume()
            upcoming = (await schedule.info()).next
            return f"schedule {name} goes on: {_iso(upcoming)} is next", {"paused": False, "next": _iso(upcoming)}
        case Action.TRIGGER:
            run = await schedule.trigger(id=id)
            return f"run {run.id} is started", {"run": run.id}
        case Action.BACKFILL:
            assert stretch is not None
            ids = [run.id for run in await schedule.backfill(*stretch)]
            return "\n".join(ids) or "there is no slot in that stretch", {"runs": ids}
        case Action.DELETE:
            await schedule.delete()
            return f"schedule {name} is deleted", {"deleted": True}
        case _:
            info, slots = await schedule.info(), [_iso(at) for at in await schedule.upcoming(count)]
            lines = [f"{key}: {value}" for key, value in _json(info).items() if value not in (None, "")]
            return "\n".join([*lines, "next slots:", *(f"  {at}" for at in slots)]), _json(info) | {"upcoming": slots}


def _list(where: Where, *, as_json: bool) -> None:
    async def read(app: App) -> tuple[list[ScheduleInfo], float]:
        return [await schedule.info() for schedule in await app.schedules()], app.store.now()

    found, now = with_store(where, read)
    if as_json:
        print_json([_json(info) for info in found])
    else:
        print_table(COLUMNS, [_row(info, now) for info in found])


def _row(info: ScheduleInfo, now: float) -> Sequence[str]:
    when = info.problem or (f"every {info.every:g} s" if info.every else f"{info.cron} {info.timezone}")
    upcoming = "paused" if info.next is None else f"{_iso(info.next)} ({ago(info.next.timestamp(), now)})"
    return (
        info.name, info.workflow, when, upcoming, str(info.started), str(info.waiting), str(info.skipped),
        str(info.missed), info.last,
    )  # fmt: skip


def _json(info: ScheduleInfo) -> dict[str, Any]:
    return asdict(info) | {"next": _iso(info.next), "last_slot": _iso(info.last_slot)}


def _iso(moment: dt.datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def _moment(text: str | None, option: str) -> dt.datetime:
    try:
        moment = dt.datetime.fromisoformat(text or "")
    except ValueError:
        raise WrongUse(f"{option} {text or ''}: write a time as 2026-03-01T00:00:00+01:00") from None
    if moment.utcoffset() is None:
        raise WrongUse(f"{option} {text}: say in which zone, for example {text}Z")
    return moment
