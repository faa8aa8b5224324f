"""Typical mistakes: a line that ends in `# E: text` gets an error that holds this text, and no other line does."""

from __future__ import annotations

import asyncio

import outlast
from outlast import App, Retry, step, workflow


@step
async def fetch(url: str) -> bytes:
    return url.encode()


@step
def add(a: int, b: int) -> int:
    return a + b


class Bank:
    @step
    async def pay(self, cents: int, to: str) -> str:
        return f"{cents} to {to}"

    @step
    def count(self) -> int:
        return 1


@workflow
async def flow(n: int) -> str:
    await fetch(5)  # E: incompatible type "int"; expected "str"
    await fetch()  # E: Missing positional argument "url"
    await fetch("x", timeout=5)  # E: Unexpected keyword argument "timeout"
    text: str = await fetch("x")  # E: expression has type "bytes", variable has type "str"
    add(1, "2")  # E: incompatible type "str"; expected "int"
    await add(1, 2)  # E: Incompatible types in "await"
    await add.call("1", 2)  # E: incompatible type "str"; expected "int"
    results: list[str] = list(await asyncio.gather(fetch("x")))  # E: expected "Iterable[str]"
    await outlast.start(fetch)  # E: expected "Call[
    await outlast.call(len, 5)  # E: No overload variant
    await outlast.call(len)  # E: No overload variant
    length: str = await outlast.call(len, "abc")  # E: No overload variant
    fetch("x")  # E: Value of type "Call[bytes]" must be used
    add.call(1, 2)  # E: Value of type "Call[int]" must be used
    flow(1)  # E: Value of type "Call[str]" must be used
    bank = Bank()
    await bank.pay("bad", 5)  # E: incompatible type "str"; expected "int"
    await bank.pay(5)  # E: Missing positional argument "to"
    bank.count.call("x")  # E: Too many arguments
    outlast.snyc.sleep(1)  # E: has no attribute "snyc"
    return text + "".join(results) + length


async def main() -> None:
    async with App("x.db") as app:
        await app.start(flow)  # E: expected "Call[
        await app.start(flow("1"))  # E: incompatible type "str"; expected "int"
        await app.start(flow(1), id=5)  # E: incompatible type "int"; expected "str | None"
        run = await app.start(flow(1))
        number: int = await run.result()  # E: expression has type "str", variable has type "int"
        await app.resolve("x", "step", "maybe")  # E: incompatible type
        await app.runs(limit="5")  # E: incompatible type "str"; expected "int"
        del number


@step(effect="twice")  # E: No overload variant
async def wrong_effect() -> None: ...


@step(retries=5)  # E: Unexpected keyword argument "retries"
async def wrong_setting() -> None: ...


@step(retry=5)  # E: No overload variant
async def wrong_retry() -> None: ...


Retry(attempts="5")  # E: incompatible type "str"; expected "int"
fetch.options(retries=3)  # E: retries
App(park_after="1")  # E: incompatible type "str"; expected "float"
