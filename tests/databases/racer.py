"""A process that executes one step as others do at the same time: `SHOP WAY NAME FOLDER`; it prints the step's result.

It tells that it is ready by a file of its name, and begins when there is a file `go`.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from outlast.stores.databases.driving import settled
from outlast.stores.databases.sources import source_of
from tests.databases.scene import until
from tests.databases.shop import POSTGRES, SQLITE, Shop, put
from tests.databases.test_races import race


async def main(address: str, way_name: str, name: str, folder: str) -> None:
    shop = Shop(address)
    way = next(each for each in (POSTGRES if shop.is_postgres else SQLITE) if each.name == way_name)

    def save_now(tx: Any) -> str:
        put(tx, "lamp")
        return name

    async def save_later(tx: Any) -> str:
        await settled(put(tx, "lamp"))
        return name

    async with way.opened(shop) as source:
        (Path(folder) / name).touch()
        until("all begin", (Path(folder) / "go").exists)
        (result,) = await race(source_of(source, is_async=way.is_async), [save_later if way.is_async else save_now])
        sys.stdout.write(result)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
