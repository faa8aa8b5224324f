"""Workflows that send, wait for messages, and ask people, and the processes that write to them."""

from __future__ import annotations

import asyncio
from typing import Any

import outlast
from outlast import App, workflow
from tests.crash.harness.agent import put


@workflow
async def keeper(what: str, count: int) -> list[Any]:
    """Take so many messages, some of them after a wait that took none."""
    got: list[Any] = []
    while len(got) < count:
        try:
            got.append(await outlast.receive("item", timeout=0.02 if len(got) % 3 else None))
        except TimeoutError:
            continue
    return got


@workflow
async def postman(what: str, to: str, count: int) -> str:
    """Send so many messages to another run."""
    for n in range(count):
        await outlast.send(to, "item", [what, n])
    return what


@workflow
async def asker(what: str, count: int) -> list[str]:
    """Ask people, and act on each yes."""
    said = []
    for n in range(count):
        answer = await outlast.approve(f"{what} {n}?")
        if answer:
            await put(f"{what}.{n}")
        said.append(answer.by)
    return said


async def send_all(app: App, name: str, to: str, count: int) -> None:
    """Send so many messages in order, each under an id of its own, so that it can be done over and over."""
    for n in range(count):
        await app.send(to, "item", [name, n], id=f"{name}.{n}", early=True)


async def answer_all(app: App, name: str, run: str, count: int) -> list[str]:
    """Answer whatever the run asks, as one of many; return who was heard, by question."""
    heard: dict[str, str] = {}
    while len(heard) < count:
        new = [asked for asked in await app.approvals(run=run, status=None) if asked.id not in heard]
        if not new:
            await asyncio.sleep(0.01)  # or the worker whose run asks has no processor left
        for asked in new:
            try:
                heard[asked.id] = (await app.approve(asked.id, by=name)).by
            except outlast.AlreadyAnswered as told:
                heard[asked.id] = told.by
    return list(heard.values())
