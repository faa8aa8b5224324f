"""Typical programs: a strict type checker has nothing to say of them, and knows every type."""

from __future__ import annotations

import asyncio
import datetime as dt
import sqlite3
import uuid
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, assert_type

import psycopg
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker
from sqlalchemy.orm import Session, sessionmaker

import outlast
from outlast import App, Call, DidNotHappen, Happened, Notice, Retry, Run, RunInfo, StepInfo, Unknown, step, workflow


@dataclass
class Plan:
    card: str
    cents: int


class CardDeclined(Exception):
    pass


@step
async def fetch(url: str, *, timeout_s: float = 1.0) -> bytes:
    return url.encode()


@step(effect="pure", retry=Retry(attempts=5, initial=0.5, on=(ConnectionError, TimeoutError)))
async def plan(goal: str) -> Plan:
    return Plan(goal, 5)


async def find_charge(key: str, card: str, cents: int) -> Happened | DidNotHappen | Unknown:
    return Happened(f"{key} {card} {cents}")


@step(effect="once", confirm=find_charge, definite=(CardDeclined,), timeout=30, settle=5.0)
async def charge(card: str, cents: int) -> str:
    outlast.heartbeat()
    outlast.annotate(tokens=5)
    return outlast.idempotency_key() + str(outlast.attempt()) + str(outlast.fence())


@step
def add(a: int, b: int = 1) -> int:
    return a + b


@step(name="shout")
def upper(text: str) -> str:
    return text.upper()


async def ping(times: int, *, host: str) -> bool:
    return times > len(host)


@workflow
async def fulfil(order: str, *, quick: bool = False) -> str:
    p = await plan(order)
    assert_type(p, Plan)
    assert_type(await charge(p.card, p.cents), str)
    assert_type(await add.call(1, b=2), int)
    assert_type(await fetch.options(timeout=5)(order, timeout_s=2), bytes)
    first, second = await asyncio.gather(plan("a"), add.call(1))
    assert_type(first, Plan)
    assert_type(second, int)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(fetch(order))
    assert_type(task.result(), bytes)
    created = asyncio.create_task(plan("b"))
    assert_type(await created, Plan)
    assert_type(await asyncio.wait_for(fetch(order), 5), bytes)
    async with asyncio.timeout(5):
        await asyncio.sleep(1)
    assert_type(outlast.now(), dt.datetime)
    assert_type(outlast.uuid4(), uuid.UUID)
    assert_type(outlast.random.randint(1, 5), int)
    assert_type(outlast.patched("x"), bool)
    with outlast.scope(order):
        outlast.current.logger.info("in run %s", outlast.current.run_id)
    child = await outlast.start(total(3), id="child")
    assert_type(child.id, str)
    assert_type(await child.result(), int)
    assert_type(await total(3), int)
    assert_type(await total.options(id="other")(3), int)
    assert_type(await outlast.call(len, "abc"), int)
    assert_type(await outlast.call(ping, 5, host="h"), bool)
    assert_type(await outlast.call(fetch, "x"), bytes)
    shop = Shop()
    assert_type(await shop.sell("tea"), int)
    assert_type(await shop.count.call(by=2), int)
    assert_type(await shop.sell.options(key="k")("tea"), int)
    assert_type(await Shop.sell(shop, "tea"), int)
    assert_type(await Shop.at("noon"), str)
    return order if quick else order * 2


@workflow(name="sum")
def total(n: int) -> int:
    result = add(n, 1)
    assert_type(result, int)
    later = plan("x")
    assert_type(later.result(), Plan)
    outlast.sync.sleep(0.1)
    started = outlast.sync.start(total(n - 1))
    assert_type(started.result(), int)
    return upper("x").count("X") + result


def listen(notice: Notice) -> None:
    assert_type(notice.name, str)


async def main() -> None:
    async with App("sqlite:///agent.db", on_event=listen, lease=10, version="v1") as app:
        call: Call[str] = fulfil("order 55", quick=True)
        coroutine: Coroutine[Any, Any, str] = call
        del coroutine
        run = await app.start(call, id="order-55")
        assert_type(run, Run[str])
        assert_type(await run.result(timeout=5), str)
        assert_type(await run.status(), str)
        assert_type(await run.info(), RunInfo)
        assert_type(await run.steps(), list[StepInfo])
        single = await app.start(charge("card", 5))
        assert_type(await single.result(), str)
        sync_step = await app.start(add.call(1, 2))
        assert_type(await sync_step.result(), int)
        assert_type(await app.runs(status=["failed", "stuck"], limit=5), list[RunInfo])
        await app.resolve("order-55", "charge", Happened("r"), attempt=1, by="ann")
        await app.resolve("order-55", "charge", DidNotHappen())
        await app.resolve("order-55", "charge", "fail")
        await app.resume("order-55")
        await app.fork("order-55", "plan", repeat_once=True)
        await app.cancel("order-55")
        await app.drain()


def script() -> None:
    assert_type(App().run(total(3)), int)
    with outlast.sync.App("agent.db", on_event=[listen]) as app:
        run = app.start(fulfil("x"))
        assert_type(run, outlast.sync.Run[str])
        assert_type(run.result(), str)


async def in_tests() -> None:
    assert_type(await fetch("x"), bytes)
    assert_type(add(1, 2), int)
    assert_type(await charge.fn("card", 5), str)
    assert_type(add.fn(1), int)


class Shop:
    @step
    async def sell(self, what: str) -> int:
        return len(what)

    @step
    def count(self, by: int = 1) -> int:
        return by

    @staticmethod
    @step
    async def at(time: str) -> str:
        return time


@outlast.transaction("sqlite:///shop.db", retry=Retry(attempts=3))
def save_order(tx: sqlite3.Connection, item: str, pieces: int = 1) -> int:
    outlast.outbox(tx).start(plan(item), id=item)
    return pieces


@outlast.transaction("postgresql://db/shop", name="save-order")
async def save_order_later(tx: psycopg.AsyncConnection[tuple[str]], item: str) -> bool:
    assert_type(await outlast.outbox(tx).start(plan(item)), str)
    return True


@outlast.transaction(sessionmaker())
def save_in_session(tx: Session, item: str) -> None:
    assert_type(outlast.outbox(tx).start(plan(item)), str)


@outlast.transaction(async_sessionmaker())
async def save_in_async_session(tx: AsyncSession, item: str) -> None:
    assert_type(await outlast.outbox(tx).start(plan(item)), str)


@workflow
async def order(item: str) -> int:
    assert_type(await save_in_async_session(item), None)
    assert_type(await save_order_later(item), bool)
    return await save_order.options(key=item).call(item, pieces=2)
