"""Processes that run an agent and are killed, the stand-in that they ask, and what is left behind."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from outlast import App
from tests.adapters.google_adk import program
from tests.adapters.google_adk.gemini import GeminiStandIn
from tests.adapters.stand_in import Asked, Reply, StandIn, serving

PROCESSES = multiprocessing.get_context("forkserver")  # where all is imported already
PROCESSES.set_forkserver_preload(["tests.adapters.google_adk.program"])

ENDS_WITHIN_S = 60.0


class Scene:
    """One run of the agent, whatever becomes of its processes."""

    def __init__(self, folder: Path, *, resumable: bool = False) -> None:
        self.store = f"sqlite:///{folder / 'agent.db'}"
        self.effects_file = folder / "effects"
        self.resumable = resumable
        self.kill = ""
        self.process: BaseProcess | None = None
        self.stand_in: StandIn

    def says(self, asked: Asked) -> Reply:
        """Answer as the program's model does, and kill the process that asks where that was told."""
        reply, which = program.says(asked), program.name_of(asked)
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
        self.process.join(ENDS_WITHIN_S)

    def start(self, work: Callable[..., None] = program.work, kill: str = "") -> BaseProcess:
        """Start a process that runs the agent."""
        arguments = (self.store, self.stand_in.url, str(self.effects_file), kill, self.resumable)
        process = PROCESSES.Process(target=work, args=arguments)
        process.start()
        return process

    async def work(self, kill: str = "", work: Callable[..., None] = program.work) -> int:
        """Run the agent in a process of its own until that ends; return how it ended."""
        self.kill = kill
        self.process = self.start(work, kill)
        await asyncio.to_thread(self.process.join, ENDS_WITHIN_S)
        if self.process.exitcode is None:
            self.end()
            raise AssertionError("the process has not come to an end")
        return self.process.exitcode

    def effects(self) -> Counter[str]:
        """Return what tools did, by their names."""
        if not self.effects_file.exists():
            return Counter()
        return Counter(json.loads(line)["tool"] for line in self.effects_file.read_text().splitlines())

    def asked(self) -> list[str]:
        """Return which requests of the model arrived, in order."""
        return [program.name_of(Asked(0, "", body)) for body in self.stand_in.asked()]

    def conversations(self) -> dict[str, Any]:
        """Return what the model saw with each request."""
        return {program.name_of(Asked(0, "", body)): body["messages"] for body in self.stand_in.asked()}

    async def recorded(self) -> set[str]:
        """Return what is recorded as done: requests as points call them, and calls of tools."""
        async with App(self.store, worker=False) as app:
            run = await app.get("desk-1")
            done = [step for step in await run.steps() if step.state == "done"]
        named = set()
        for step in done:
            if step.name == "model":
                agent = "sub" if "sub]" in step.id else "main"
                named.add(f"{agent}{step.id.rpartition('#')[2] if '#' in step.id else 1}")
            elif step.name == "weather":
                named.add(f"weather_{json.loads(step.args)[1]['city']}")
            else:
                named.add(step.name)
        return named

    async def answer(self, app: App, *, approve: bool = True) -> None:
        """Answer the first question that the agent asks people."""
        while not (asked := await app.approvals()):  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.02)
        if approve:
            await app.approve(asked[0].id, by="ada")
        else:
            await app.reject(asked[0].id, by="ada", note="too much")

    async def finish(self, *, approve: bool = True) -> Any:
        """Have a process bring the run to its end, and return what it came to."""
        async with App(self.store, worker=False) as app:
            answering = asyncio.create_task(self.answer(app, approve=approve))
            assert await self.work() == 0
            answering.cancel()
            return await (await app.get("desk-1")).result()

    async def be_killed(self, point: str, work: Callable[..., None] = program.work) -> None:
        """Have a process run until it is killed at this point."""
        async with App(self.store, worker=False) as app:
            answering = asyncio.create_task(self.answer(app))
            assert await self.work(point, work) == -signal.SIGKILL
            answering.cancel()

    async def items(self) -> list[str]:
        """Return the items of the stream of tokens."""
        async with App(self.store, worker=False) as app:
            run = await app.get("desk-1")
            return [item.value async for item in run.stream("tokens")]


@contextmanager
def scene(folder: Path, *, resumable: bool = False) -> Iterator[Scene]:
    """Make a scene, with its stand-in."""
    made = Scene(folder, resumable=resumable)
    with serving(made.says, folder / "asked", GeminiStandIn) as made.stand_in:
        yield made
        if made.process is not None and made.process.is_alive():
            made.end()
