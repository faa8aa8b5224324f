"""Processes that run an agent and are killed, the stand-in that they ask, and what is left behind."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from outlast import App
from tests.adapters.langgraph import desk
from tests.adapters.stand_in import Asked, Reply, StandIn, serving

PROCESSES = multiprocessing.get_context("forkserver")  # where all is imported already
PROCESSES.set_forkserver_preload(["tests.adapters.langgraph.desk"])

ENDS_WITHIN_S = 60.0


class Scene:
    """One run of the agent, whatever becomes of its processes."""

    def __init__(self, folder: Path) -> None:
        self.store = f"sqlite:///{folder / 'agent.db'}"
        self.effects_file = folder / "effects"
        self.kill = ""
        self.process: BaseProcess | None = None
        self.stand_in: StandIn
        self._ended = threading.Event()

    def says(self, asked: Asked) -> Reply:
        """Answer as the program's model does, and kill the process that asks where that was told."""
        reply, which = desk.says(asked), desk.name_of(asked)
        if self.kill == f"asked {which}":
            self.end()
        if self.kill == f"hears {which}":  # a part of the answer is on its way
            second = int(asked.body.get("stream", False) and bool(reply.text))
            return Reply(reply.text, reply.calls, before=lambda n: self.end() if n == second else None)
        return reply

    def end(self) -> None:
        """Kill the process."""
        assert self.process is not None
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGKILL)
        self._ended.wait(ENDS_WITHIN_S)  # only one thread can join it

    async def work(self, kill: str = "") -> int:
        """Run the agent in a process of its own until that ends; return how it ended."""
        self.kill = kill
        arguments = (self.store, self.stand_in.url, str(self.effects_file), kill)
        self.process = PROCESSES.Process(target=desk.work, args=arguments)
        self._ended.clear()
        self.process.start()
        await asyncio.to_thread(self.process.join, ENDS_WITHIN_S)
        code = self.process.exitcode
        self._ended.set()
        if code is None:
            self.end()
            raise AssertionError("the process has not come to an end")
        return code

    def effects(self) -> Counter[str]:
        """Return what tools did, by their names."""
        if not self.effects_file.exists():
            return Counter()
        return Counter(json.loads(line)["tool"] for line in self.effects_file.read_text().splitlines())

    def asked(self) -> list[str]:
        """Return which requests of the model arrived, in order."""
        return [desk.name_of(Asked(0, "", body)) for body in self.stand_in.asked()]

    def conversations(self) -> dict[str, Any]:
        """Return what the model saw with each request."""
        return {desk.name_of(Asked(0, "", body)): body["messages"] for body in self.stand_in.asked()}

    async def recorded(self) -> set[str]:
        """Return what is recorded as done: requests as points call them, and calls of tools."""
        async with App(self.store, worker=False) as app:
            run = await app.get("desk-1")
            done = [step for step in await run.steps() if step.state == "done"]
        named, requests = set(), Counter[str]()
        for step in done:
            if step.name == "model":
                agent = "sub" if ".[ask:" in step.id else "main"
                requests[agent] += 1
                named.add(f"{agent}{requests[agent]}")
            elif step.name == "weather":
                named.add(f"weather_{json.loads(step.args)[1]['city']}")
            else:
                named.add(step.name)
        return named

    async def answer(self, app: App, *, approve: bool = True) -> None:
        """Answer the first question that the agent asks people."""
        asked = await app.approvals()
        while not asked:
            await asyncio.sleep(0.02)
            asked = await app.approvals()
        if approve:
            await app.approve(asked[0].id, by="ada")
        else:
            await app.reject(asked[0].id, by="ada", note="too much")

    async def result(self) -> Any:
        """Return what the run came to."""
        async with App(self.store, worker=False) as app:
            return await (await app.get("desk-1")).result()


@contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    """Make a scene, with its stand-in."""
    made = Scene(folder)
    with serving(made.says, folder / "asked") as made.stand_in:
        yield made
