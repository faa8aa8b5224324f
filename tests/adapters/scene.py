"""A run of an agent whose processes are killed, the stand-in that they ask, and what is left behind.

Each adapter's tests have a program of their own: a module that says what its model says (`says`), which request is
which (`name_of`), and is a process that runs the agent (`work`). Points at which a process dies are called by what is
about to happen there, or has happened:

    asks main1    the first request of the agent `main` is about to leave
    asked main1   it has arrived at the provider
    hears main1   a part of its answer is on the way
    has main1     its outcome is recorded
    begins pay    the tool `pay` is about to act
    did pay       it has acted
    has pay       its outcome is recorded
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, ClassVar, Self

from outlast import AlreadyAnswered, App, StepInfo
from tests.adapters.stand_in import Asked, Reply, StandIn, serving

ENDS_WITHIN_S = 60.0
PEOPLE = 4


def processes(*modules: str) -> ForkServerContext:
    """Return what makes real processes, each forked from one that has imported these modules: that takes seconds."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(modules))
    return context


def points(requests: Sequence[str], tools: Sequence[str]) -> list[str]:
    """Return the points around requests of models and calls of tools."""
    around = [f"{when} {which}" for which in requests for when in ("asks", "asked", "hears", "has")]
    return around + [f"{when} {which}" for which in tools for when in ("begins", "did", "has")]


@dataclass(frozen=True)
class Undisturbed:
    """What a run comes to that nobody disturbs, what its model saw, and its items."""

    result: Any
    conversations: dict[str, Any]
    items: list[str]


class Scene:
    """One run of an agent, `desk-1`, whatever becomes of its processes."""

    program: ClassVar[Any]
    PROCESSES: ClassVar[ForkServerContext]
    REQUESTS: ClassVar[Sequence[str]]
    TOOLS: ClassVar[Sequence[str]]
    KIND: ClassVar[type[StandIn]] = StandIn

    def __init__(self, folder: Path, *given: Any) -> None:
        self.store = f"sqlite:///{folder / 'agent.db'}"
        self.effects_file = folder / "effects"
        self.asked_file = folder / "asked"
        self.given = given
        """What processes are given beside the store, the provider's address, the file of effects and their end."""
        self.kill = ""
        self.process: BaseProcess | None = None
        self.stand_in: StandIn
        self._ended = threading.Event()

    @classmethod
    @contextmanager
    def at(cls, folder: Path, *given: Any) -> Iterator[Self]:
        """Make a scene, with its stand-in."""
        made = cls(folder, *given)
        with serving(made.says, made.asked_file, cls.KIND) as made.stand_in:
            yield made
            if made.process is not None and made.process.is_alive():
                made.process.kill()

    def named(self, steps: Sequence[StepInfo]) -> set[str]:
        """Return what these steps are, as points call requests and tools."""
        raise NotImplementedError

    def told(self, result: Any) -> Any:
        """Return what a result says, but for what no two runs have alike."""
        return result

    def says(self, asked: Asked) -> Reply:
        """Answer as the program's model does, and kill the process that asks where that was told."""
        reply, which = self.program.says(asked), self.program.name_of(asked)
        if self.kill == f"asked {which}":
            self.end()
        if self.kill == f"hears {which}":  # a part of the answer is on its way
            second = int(asked.body.get("stream", False) and bool(reply.text))
            return Reply(reply.text, reply.calls, before=lambda n: self.end() if n == second else None)
        return reply

    def end(self) -> None:
        """Kill the process, and return when it is gone."""
        assert self.process is not None
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGKILL)
        self._ended.wait(ENDS_WITHIN_S)  # one thread alone can join it: a second one is told a wrong exit code

    def start(self, work: Callable[..., None] | None = None, kill: str = "") -> BaseProcess:
        """Start a process that runs the agent."""
        given = (self.store, self.stand_in.url, str(self.effects_file), kill, *self.given)
        process = self.PROCESSES.Process(target=work or self.program.work, args=given, daemon=True)
        process.start()
        return process

    async def work(self, kill: str = "", work: Callable[..., None] | None = None) -> int:
        """Run the agent in a process of its own until that ends; return how it ended."""
        self.kill = kill
        self._ended.clear()
        self.process = self.start(work, kill)
        await asyncio.to_thread(self.process.join, ENDS_WITHIN_S)
        code = self.process.exitcode
        self._ended.set()
        if code is None:
            self.end()
            raise AssertionError("the process has not come to an end")
        return code

    async def question(self, app: App) -> str:
        """Return the id of what the agent asks people, once it does."""
        while not (asked := await app.approvals()):  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.02)
        return asked[0].id

    async def answer(self, app: App, *, approve: bool = True) -> None:
        """Answer the first question that the agent asks people."""
        asked = await self.question(app)
        if approve:
            await app.approve(asked, by="ada")
        else:
            await app.reject(asked, by="ada", note="too much")

    async def finish(self, *, approve: bool = True) -> Any:
        """Have a process bring the run to its end, and return what it came to."""
        async with App(self.store, worker=False) as app:
            answering = asyncio.create_task(self.answer(app, approve=approve))
            assert await self.work() == 0
            answering.cancel()
            return await (await app.get("desk-1")).result()

    async def be_killed(self, point: str, work: Callable[..., None] | None = None) -> None:
        """Have a process run until it is killed at this point."""
        async with App(self.store, worker=False) as app:
            answering = asyncio.create_task(self.answer(app))
            assert await self.work(point, work) == -signal.SIGKILL
            answering.cancel()

    def effects(self) -> Counter[str]:
        """Return what tools did, by their names."""
        if not self.effects_file.exists():
            return Counter()
        return Counter(json.loads(line)["tool"] for line in self.effects_file.read_text().splitlines())

    def asked(self) -> list[str]:
        """Return which requests of the model arrived, in order."""
        return [self.program.name_of(Asked(0, "", body)) for body in self.stand_in.asked()]

    def conversations(self) -> dict[str, Any]:
        """Return what the model saw with each request."""
        return {self.program.name_of(Asked(0, "", body)): body["messages"] for body in self.stand_in.asked()}

    async def recorded(self) -> set[str]:
        """Return what is recorded as done: requests as points call them, and calls of tools."""
        async with App(self.store, worker=False) as app:
            run = await app.get("desk-1")
            return self.named([step for step in await run.steps() if step.state == "done"])

    async def items(self) -> list[str]:
        """Return the items of the stream of tokens."""
        async with App(self.store, worker=False) as app:
            run = await app.get("desk-1")
            return [item.value async for item in run.stream("tokens")]

    def undisturbed(self) -> Undisturbed:
        """Have the run come to its end, and tell what others have to come to."""
        result = asyncio.run(self.finish())
        assert sorted(self.asked()) == sorted(self.REQUESTS)
        assert dict(self.effects()) == dict.fromkeys(self.TOOLS, 1)
        return Undisturbed(self.told(result), self.conversations(), asyncio.run(self.items()))

    def is_finished_by_another(self, point: str, undisturbed: Undisturbed) -> None:
        """Kill a process at this point: what is not recorded is done by the next, and it comes to the same."""
        asyncio.run(self.be_killed(point))
        recorded, asked, did = asyncio.run(self.recorded()), self.asked(), self.effects()
        result = asyncio.run(self.finish())

        again = self.asked()[len(asked) :]
        assert sorted(again) == sorted(set(self.REQUESTS) - recorded)
        done = self.effects()
        paid = {"pay"} if did["pay"] else set()  # its `confirm` found it
        assert {tool: done[tool] - did[tool] for tool in self.TOOLS} == {
            tool: int(tool not in recorded | paid) for tool in self.TOOLS
        }
        assert self.told(result) == undisturbed.result
        assert self.conversations() == undisturbed.conversations
        assert asyncio.run(self.items()) == undisturbed.items

    def is_done_once_by_two(self) -> None:
        """Have two processes at this run at once."""
        processes = [self.start(), self.start()]

        async def answer() -> None:
            async with App(self.store, worker=False) as app:
                await self.answer(app)

        asyncio.run(answer())
        for process in processes:
            process.join(ENDS_WITHIN_S)
            assert process.exitcode == 0
        assert sorted(self.asked()) == sorted(self.REQUESTS)
        assert dict(self.effects()) == dict.fromkeys(self.TOOLS, 1)

    def hears_one_of_many_answers(self) -> None:
        """Have many processes answer at once what the agent asks people."""
        worker = self.start()

        async def asked() -> str:
            async with App(self.store, worker=False) as app:
                return await self.question(app)

        question = asyncio.run(asked())
        barrier, answers = self.PROCESSES.Barrier(PEOPLE), self.PROCESSES.Queue()
        people = [
            self.PROCESSES.Process(target=answer_at_once, args=(self.store, question, barrier, answers))
            for _ in range(PEOPLE)
        ]
        for each in people:
            each.start()
        said = sorted(answers.get(timeout=ENDS_WITHIN_S) for _ in people)
        for each in [*people, worker]:
            each.join(ENDS_WITHIN_S)
        answers.close()
        answers.join_thread()
        assert said == ["first"] + ["late"] * (PEOPLE - 1)
        assert worker.exitcode == 0
        assert self.effects()["pay"] == 1


def answer_at_once(store: str, question: str, barrier: Any, answers: Any) -> None:
    """Be a process: answer together with others."""

    async def main() -> None:
        async with App(store, worker=False) as app:
            await asyncio.to_thread(barrier.wait)
            try:
                await app.approve(question, by="one of them")
            except AlreadyAnswered:
                answers.put("late")
            else:
                answers.put("first")

    asyncio.run(main())
