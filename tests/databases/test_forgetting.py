"""The record of a transactional step goes when nobody can need it any more, and not before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import outlast
from outlast.runtime import forgetting, transactions
from outlast.stores.databases import recorded
from tests.behaviour.stage import OpenApp, eventually, failure
from tests.databases.shop import Shop, Way, ordering, put

Given = tuple[Shop, Way]


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgetting, "FIRST_LOOK_S", 0.02)
    monkeypatch.setattr(forgetting, "LOOK_S", 0.02)


def grow_old(shop: Shop, run: str) -> None:
    """Make the records of a run as old as they would be after weeks."""
    shop.ask("UPDATE outlast_transactions SET created = '2001-01-01 00:00:00' WHERE run_id = ?", run)


def kept(shop: Shop) -> list[str]:
    """Return the runs that have records."""
    return [run for (run,) in shop.ask("SELECT run_id FROM outlast_transactions ORDER BY run_id")]


async def all_looked(shop: Shop, way: Way, source: Any, app: outlast.App) -> None:
    """Wait until a look has gone through all that was there: it has taken a record that is to go."""
    _, order = ordering(way, source)
    await (await app.start(order("last"), id="zz-last")).result()
    grow_old(shop, "zz-last")
    await eventually(lambda: "zz-last" not in kept(shop))


async def test_the_old_records_of_a_run_that_succeeded_go(given: Given, open_app: OpenApp) -> None:
    shop, way = given
    async with way.opened(shop) as source, open_app() as app:
        _, order = ordering(way, source)
        for item in ("lamp", "chair"):
            await (await app.start(order(item), id=f"order-{item}")).result()
        grow_old(shop, "order-lamp")
        await eventually(lambda: kept(shop) == ["order-chair"])  # which is not old
    assert shop.orders() == ["chair", "lamp"]


async def test_all_pages_are_gone_through(shop: Shop, open_app: OpenApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "READ_OLD", recorded.READ_OLD.replace(f"LIMIT {recorded.PAGE}", "LIMIT 2"))
    monkeypatch.setattr(forgetting, "PAGE", 2)
    way = Way("address", False, lambda shop: None)
    async with open_app() as app:
        _, order = ordering(way, shop.address)
        for n in range(5):
            await (await app.start(order(f"lamp {n}"), id=f"order-{n}")).result()
        shop.ask(
            "UPDATE outlast_transactions SET created = '2001-01-01 00:00:00', run_id = 'unknown' WHERE run_id = ?",
            "order-3",
        )
        for n in range(5):
            grow_old(shop, f"order-{n}")
        await eventually(lambda: kept(shop) == ["unknown"])


async def test_the_record_of_a_run_that_can_be_taken_up_again_stays(shop: Shop, open_app: OpenApp) -> None:
    """Its step has committed, and its failure, which came after that, is dropped by a resume."""
    way = Way("address", False, lambda shop: None)
    calls: list[int] = []
    save, _ = ordering(way, shop.address)

    @outlast.workflow
    async def fails_once(item: str) -> int:
        length: int = await save.call(item)
        if not calls:
            calls.append(1)
            raise ValueError("no")
        return length

    async with open_app() as app:
        run = await app.start(fails_once("lamp"), id="order-1")
        assert isinstance(await failure(run), ValueError)
        grow_old(shop, "order-1")
        await all_looked(shop, way, shop.address, app)
        assert kept(shop) == ["order-1"]
        await (await app.resume("order-1")).result()
        await eventually(lambda: kept(shop) == [])
    assert "lamp" in shop.orders()


async def test_the_record_of_another_store_s_run_stays(shop: Shop, open_app: OpenApp, tmp_path: Path) -> None:
    """Both have a run of that id; only one of them has succeeded."""
    way = Way("address", False, lambda shop: None)
    _, order = ordering(way, shop.address)
    async with outlast.App(f"sqlite:///{tmp_path / 'other.db'}") as other:
        await (await other.start(order("lamp"), id="order-1")).result()
    async with open_app() as app:
        _, nothing = ordering(way, shop.address, lambda tx, item: put(tx, f"another {item}"))
        await (await app.start(nothing("lamp"), id="order-1")).result()
        await (await app.start(order("chair"), id="order-2")).result()
        assert kept(shop) == ["order-1", "order-1", "order-2"]
        grow_old(shop, "order-1")
        await eventually(lambda: kept(shop) == ["order-1", "order-2"])
        await all_looked(shop, way, shop.address, app)
        assert kept(shop) == ["order-1", "order-2"]


async def test_an_attempt_that_is_older_than_any_record_is_sure_to_be_kept_commits_nothing(
    given: Given, open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, way = given
    real = transactions.clock

    class Later:
        jump = 0.0

        def boot(self) -> float:
            return real.boot() + self.jump

    later = Later()
    monkeypatch.setattr(transactions, "clock", later)

    def freeze(tx: Any, item: str) -> Any:
        written = put(tx, item)
        later.jump += transactions.LONGEST_S + 1
        return written

    async with way.opened(shop) as source, open_app() as app:
        _, order = ordering(way, source, freeze)
        await failure(await app.start(order("lamp")))
    assert shop.orders() == []
    assert shop.records() == []
    assert transactions.LONGEST_S < recorded.KEPT_DAYS * 86_400


async def test_a_database_that_lets_nothing_be_deleted_is_told_once(
    shop: Shop, open_app: OpenApp, caplog: pytest.LogCaptureFixture
) -> None:
    way = Way("address", False, lambda shop: None)
    async with open_app() as app:
        _, order = ordering(way, shop.address)
        await (await app.start(order("lamp"), id="order-1")).result()
        grow_old(shop, "order-1")
        shop.ask("ALTER TABLE outlast_transactions RENAME TO away")
        await eventually(lambda: "nobody needs any more" in caplog.text)
        shop.ask("ALTER TABLE away RENAME TO outlast_transactions")
        await eventually(lambda: kept(shop) == [])
    assert caplog.text.count("nobody needs any more") == 1
