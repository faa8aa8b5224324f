"""`outlast queues`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from outlast.cli.exits import ExitCode
from outlast.cli.failures import Told, tell
from outlast.cli.opening import Where, with_store
from outlast.cli.options import AppName, Json, Url
from outlast.cli.output import print_json, print_table
from outlast.cli.wording import ago, iso_time, lasted
from outlast.runtime.app import App
from outlast.runtime.queue_infos import QueueInfo

COLUMNS = ("queue", "waiting", "running", "oldest", "limits", "most of", "state")
KEYS_SHOWN = 3


def queues(
    pause: Annotated[
        list[str] | None, typer.Option("--pause", metavar="NAME", help="Begin no more runs of this queue.")
    ] = None,
    resume: Annotated[
        list[str] | None, typer.Option("--resume", metavar="NAME", help="Begin runs of this queue again.")
    ] = None,
    by: Annotated[str, typer.Option("--by", metavar="NAME", help="Who pauses it.")] = "",
    url: Url = None,
    app_name: AppName = None,
    as_json: Json = False,
) -> None:
    """List queues: what waits on them, what runs, and their limits; pause one, or go on with it.

    \b
    outlast queues
    outlast queues --pause llm --by ada
    outlast queues --resume llm
    """

    async def read(app: App) -> tuple[list[QueueInfo], float]:
        known = {queue.name for queue in await app.queues()}
        if unknown := [name for name in (*(pause or ()), *(resume or ())) if name not in known]:
            text = f"no queue has the name {unknown[0]!r} in {app.url}; `outlast queues` lists them"
            tell(text, "WrongUse", as_json=as_json)
            raise Told(ExitCode.NOT_FOUND)
        for name in pause or ():
            await app.pause_queue(name, by=by)
        for name in resume or ():
            await app.resume_queue(name)
        return await app.queues(), app.store.now()

    found, now = with_store(Where(url, app_name), read)
    if as_json:
        print_json([queue_json(queue) for queue in found])
    else:
        print_table(COLUMNS, [_row(queue, now) for queue in found])


def _row(queue: QueueInfo, now: float) -> tuple[str, ...]:
    named = [(key, sum(counts)) for key, counts in queue.keys.items() if key]
    keys = ", ".join(f"{key} ({count})" for key, count in named[:KEYS_SHOWN])
    state = ""
    if queue.paused is not None:
        state = f"paused {ago(queue.paused, now)}" + (f" by {queue.paused_by}" if queue.paused_by else "")
    return (queue.name, str(queue.waiting), str(queue.running), ago(queue.oldest, now), _limits(queue), keys, state)


def _limits(queue: QueueInfo) -> str:
    limits = [
        f"{count} {what}"
        for count, what in (
            (queue.concurrency, "at once"),
            (queue.per_worker, "per worker"),
            (queue.per_key, "per key"),
        )
        if count is not None
    ]
    if queue.rate is not None:
        limits.append(f"{queue.rate[0]} in {lasted(queue.rate[1])}")
    return ", ".join(limits) or "none"


def queue_json(queue: QueueInfo) -> dict[str, Any]:
    """Return a queue for JSON: its fields, with times as ISO text."""
    keys = {key: {"waiting": waiting, "running": running} for key, (waiting, running) in queue.keys.items()}
    times = {name: iso_time(getattr(queue, name)) for name in ("oldest", "paused")}
    return asdict(queue) | {"keys": keys} | times
