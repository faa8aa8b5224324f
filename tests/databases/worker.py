"""A worker process for the crash tests of a shop: `STORE SHOP WAY FOLDER STARTS FAULTS`, the faults as JSON.

Its step passes the points `in save` (its row is not written yet) and `saved` (it is, and not committed); between the
COMMIT and the journal is the harness's `before Write step main/save#1 of order-1`. It notes each call in FOLDER/calls,
and relays the shop's outbox. STARTS, unless it is empty, has it start the run of the order.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import msgspec

from outlast import App
from tests.crash.harness import points
from tests.databases.shop import POSTGRES, SQLITE, Shop, ordering, put

LEASE_S = 1.0
TOLD = "told"
CALLS = "calls"


def note(folder: Path, file: str, what: str) -> None:
    """Add a line to a file of the test's folder."""
    with (folder / file).open("a") as lines:
        lines.write(f"{os.getpid()} {what}\n")


async def main(store: str, address: str, way_name: str, folder_name: str, starts: str, faults: str) -> None:
    shop, folder = Shop(address), Path(folder_name)
    plan = msgspec.json.decode(faults, type=list[points.Fault])
    points.install(plan, lambda event, **_: note(folder, TOLD, event), recording=False, folder=folder_name)
    way = next(each for each in (POSTGRES if shop.is_postgres else SQLITE) if each.name == way_name)

    def save_now(tx: Any, item: str) -> None:
        note(folder, CALLS, item)
        points.point("in save")
        put(tx, item)
        points.point("saved")

    async def save_later(tx: Any, item: str) -> None:
        note(folder, CALLS, item)
        points.point("in save")
        await put(tx, item)
        points.point("saved")

    async with way.opened(shop) as source, App(store, lease=LEASE_S, outbox=source) as app:
        _, order = ordering(way, source, save_later if way.is_async else save_now)
        if starts:
            await app.start(order("lamp"), id="order-1")
        await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
