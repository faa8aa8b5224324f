"""An agent's work on a server: tools in parallel, a part of it in a scope, and a call that asks people.

Run as a program it does its work in a process that the tests kill:

    python -m tests.adapters.mcp.desk FOLDER SERVER_URL RUN_ID MODE [POINT]

It dies by SIGKILL at the point of this name: `before look 1`, `after note 2`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp import Client

import outlast
from outlast import App, DidNotHappen, Happened, workflow
from outlast.mcp import DurableSession, elicit


@dataclass
class Scene:
    """Where this process works, and the point at which it dies."""

    folder: Path = Path()
    server: str = ""
    dies_at: str = ""
    passed: Counter[str] = field(default_factory=Counter)

    @property
    def store(self) -> str:
        """The store's URL."""
        return f"sqlite:///{self.folder}/runs.db"


scene = Scene()


def point(name: str) -> None:
    """Pass a point, or die there."""
    scene.passed[name] += 1
    if f"{name} {scene.passed[name]}" == scene.dies_at:
        os.kill(os.getpid(), signal.SIGKILL)


def find_payment(key: str, amount: int) -> Happened | DidNotHappen:
    """Tell whether a payment was made."""
    ledger = scene.folder / "ledger"
    deeds = [json.loads(line) for line in ledger.read_text().splitlines()] if ledger.exists() else []
    made = any(deed["what"] == "pay" and deed["key"] == key for deed in deeds)
    return Happened(f"paid {amount} of 7") if made else DidNotHappen()


def with_points(session: Any) -> None:
    """Put points around the calls of tools."""
    call = session.call_tool

    async def pointed(name: str, *args: Any, **kwargs: Any) -> Any:
        point(f"before {name}")
        result = await call(name, *args, **kwargs)
        point(f"after {name}")
        return result

    session.call_tool = pointed


@workflow(loop="native")
async def desk(mode: str) -> list[str]:
    """Do all of it."""
    client = Client(scene.server, mode=mode, elicitation_callback=elicit)
    pays = {"effect": "once", "confirm": find_payment, "settle": 0.0}
    async with DurableSession(client, effects={"pay": pays}) as session:
        with_points(session.session)
        await session.list_tools()
        results = await asyncio.gather(
            session.call_tool("look", {"topic": "rain"}),
            session.call_tool("note", {"text": "a"}),
            session.call_tool("note", {"text": "b"}),
        )
        with outlast.scope("expert"):
            results.append(await session.call_tool("look", {"topic": "snow"}, key="e1"))
        results.append(await session.call_tool("pay", {"amount": 5}, key="p1"))
        return [result.content[0].text for result in results]  # type: ignore[union-attr]


ANSWER = ["all about rain", "noted a", "noted b", "all about snow", "paid 5 of 7"]


def set_up(folder: Path, server: str, dies_at: str = "") -> Scene:
    """Make the scene of this process."""
    scene.folder, scene.server, scene.dies_at, scene.passed = folder, server, dies_at, Counter()
    return scene


async def main(run_id: str, mode: str) -> None:
    """Start the run, and work until it has ended."""
    async with App(scene.store, park_after=0.2) as app:
        await (await app.start(desk(mode), id=run_id)).result()


if __name__ == "__main__":
    folder, url, run_id, mode, *points = sys.argv[1:]
    from tests.adapters.mcp import desk as this  # the module that the workflow's name says

    this.set_up(Path(folder), url, *points)
    asyncio.run(this.main(run_id, mode))
