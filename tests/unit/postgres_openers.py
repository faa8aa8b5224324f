"""Processes that open one store at the same moment, with one migration more than there is: `URL HOW_MANY`."""

from __future__ import annotations

import os
import sys

from outlast.runtime.clock import SystemClock
from outlast.stores.postgres import PostgresStore, schema

schema.MIGRATIONS = (*schema.MIGRATIONS, "CREATE TABLE shades (name text);")


def open_and_tell(url: str, starts: int) -> None:
    """Wait for the start, open the store and say which version it has."""
    os.read(starts, 1)
    try:
        store = PostgresStore(url, SystemClock())
        text = f"version {store.info().schema_version}"
        store.close()
    except BaseException as error:  # noqa: BLE001 - the end of this process, which the test is told of
        text = repr(error)
    os.write(1, f"{text}\n".encode())
    os._exit(0)


def main(url: str, how_many: str) -> None:
    """Fork, let all of them go at once, and wait for them."""
    starts, gate = os.pipe()
    for _ in range(int(how_many)):
        if not os.fork():
            os.close(gate)
            open_and_tell(url, starts)
    os.close(gate)  # the end of the file is what all of them wait for
    for _ in range(int(how_many)):
        os.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
