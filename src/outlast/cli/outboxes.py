"""How the outboxes of an App stand: what waits to be relayed, and what was refused. `outlast doctor` shows it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from outlast.cli import output
from outlast.cli.wording import ago, counted, iso_time, shortened, visible
from outlast.core.telling import error_line
from outlast.runtime.relay import on_its_driver
from outlast.stores.databases.outbox import Standing, standing
from outlast.stores.databases.source import Source
from outlast.stores.databases.sources import SqliteSource

COLUMNS = ("row", "run", "noted", "reason")
REASON_LENGTH = 200
MOST_SHOWN = 20


@dataclass(slots=True)
class SeenOutbox:
    """An outbox as a look found it. `error` says why it cannot be read."""

    database: str
    stands: Standing = field(default_factory=Standing)
    error: str = ""

    def says(self) -> str:
        """Return how it stands, in a line."""
        if self.error:
            return f"{self.database}: cannot be read"
        return f"{self.database}: {self.stands.waiting} waiting, {self.stands.refused} refused"

    def finding(self) -> tuple[str, list[str], list[str]] | None:
        """Return what needs a person, what to do, and for which runs; None where nothing does."""
        if self.error:
            return f"the outbox in {self.database} cannot be read: {self.error}", [], []
        if not self.stands.refused:
            return None
        runs = [row.run_id for row in self.stands.rows]
        one = self.stands.rows[0]
        many = f"runs {runs[0]} and {self.stands.refused - 1} more" if self.stands.refused > 1 else f"run {runs[0]}"
        what = (
            f"the outbox in {self.database} has {counted(self.stands.refused, 'row')} that the relay refused, so that "
            f"nobody starts {many}: {one.why}"
        )
        return (
            what,
            [
                "remove what stands against it, and have it tried again, in that database:",
                f"  {one.try_again}",
                "or give it up:",
                f"  {one.give_up}",
            ],
            runs,
        )


async def look_at(sources: Iterable[Source]) -> list[SeenOutbox]:
    """Look at outboxes. It only reads, and makes nothing."""
    return [await _look_at(source) for source in sources]


async def _look_at(source: Source) -> SeenOutbox:
    try:
        if isinstance(source, SqliteSource):
            await asyncio.to_thread(os.stat, source.text)  # which, unlike opening it, makes no file
        return SeenOutbox(source.text, await on_its_driver(source, standing))
    except Exception as error:  # noqa: BLE001 - whatever a driver raises: the rest of the report is still wanted
        return SeenOutbox(source.text, error=error_line(error))


def print_outboxes(outboxes: Iterable[SeenOutbox], now: float) -> None:
    """Write how they stand, and the rows that were refused."""
    for number, outbox in enumerate(outboxes):
        output.print_line(f"{'outbox' if not number else '':8} {visible(outbox.says())}")
        rows = outbox.stands.rows[:MOST_SHOWN]
        if rows:
            output.print_table(
                COLUMNS, [(str(r.n), r.run_id, ago(r.noted, now), shortened(r.why, REASON_LENGTH)) for r in rows]
            )
        if outbox.stands.refused > len(rows):
            output.print_line(f"and {outbox.stands.refused - len(rows)} more")


def as_json(outboxes: Iterable[SeenOutbox]) -> Iterator[dict[str, Any]]:
    """Yield them for JSON."""
    for outbox in outboxes:
        rows = [
            {"row": row.n, "run": row.run_id, "noted": iso_time(row.noted), "reason": row.why}
            for row in outbox.stands.rows
        ]
        yield {
            "database": outbox.database, "waiting": outbox.stands.waiting, "refused": outbox.stands.refused,
            "rows": rows, "error": outbox.error or None,
        }  # fmt: skip
