"""The connection breaks around a COMMIT: what became of it is looked up, and an empty one never stands for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from outlast.stores.databases.source import POSTGRESQL
from outlast.stores.databases.tables import TRANSACTIONS
from tests.behaviour.stage import Ears, OpenApp
from tests.databases.shop import POSTGRES, Shop, Way, close, new_shop, ordering, put
from tests.databases.wire import Wire


@pytest.fixture
def shop() -> Iterator[Shop]:
    made = new_shop(None)
    yield made
    close(made)


@pytest.mark.parametrize("cut", ["before", "after"])
@pytest.mark.parametrize("way", POSTGRES, ids=str)
async def test_a_commit_whose_answer_is_lost_is_looked_up(
    shop: Shop, way: Way, cut: str, open_app: OpenApp, ears: Ears
) -> None:
    calls: list[str] = []

    def noting(tx: Any, item: str) -> Any:
        calls.append(item)
        return put(tx, item)

    shop.ask(TRANSACTIONS.ddl(POSTGRESQL))  # so that the first COMMIT on the wire is the step's
    wire = Wire(shop.address, cut)
    try:
        async with way.opened(Shop(wire.url)) as source, open_app(on_event=ears) as app:
            _, order = ordering(way, source, noting)
            assert await (await app.start(order("lamp"))).result() == 4
    finally:
        wire.close()
    assert wire.left <= 0, "no COMMIT was cut"
    assert len(calls) == (2 if cut == "before" else 1)
    assert shop.orders() == ["lamp"]
    assert len(shop.records()) == 1
    assert not ears.heard("step.failed")
