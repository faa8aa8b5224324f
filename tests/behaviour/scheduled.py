"""What the tests of schedules share: looking at the runs that one has started."""

from __future__ import annotations

import outlast
from outlast import App
from tests.behaviour.stage import eventually


async def runs_of(app: App, name: str) -> list[outlast.RunInfo]:
    """Return the runs of a schedule, oldest first."""
    return (await app.runs(id_prefix=f"{name}@", limit=1_000))[::-1]


async def has_started(app: App, name: str, count: int) -> None:
    async def there() -> bool:
        return len(await runs_of(app, name)) >= count

    await eventually(there)
