"""An agent with all that a crash could spoil: parallel tools, a sub-agent, an approval, a handoff back and forth.

It runs in a process that dies by SIGKILL at the point of a number, of those that it passes: before, in and after each
call. Then it runs in the process of the test.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents import Agent, Model, Runner, SQLiteSession, function_tool, set_tracing_disabled
from agents.models.openai_chatcompletions import OpenAIChatCompletionsModel
from openai import AsyncOpenAI

import outlast
from outlast import AlreadyAnswered, App, DidNotHappen, Happened, workflow
from outlast.openai_agents import decide, install
from tests.adapters.stand_in import Asked, Reply, ToolCall


@dataclass
class Scene:
    """Where this process works, and the number of the point at which it dies."""

    folder: Path = Path()
    stand_in: str = ""
    dies_at: int | None = None
    passed: Any = field(default_factory=itertools.count)
    agents: dict[str, Agent[Any]] = field(default_factory=dict)
    client: AsyncOpenAI | None = None

    @property
    def store(self) -> str:
        """The store's URL."""
        return f"sqlite:///{self.folder}/runs.db"

    def write(self, what: str, **more: Any) -> None:
        """Note in a ledger outside of the process what was done."""
        with (self.folder / "ledger").open("a") as file:
            file.write(json.dumps({"what": what, "pid": os.getpid(), **more}) + "\n")

    def lines(self) -> list[dict[str, Any]]:
        """Return what was noted, by whichever process."""
        ledger = self.folder / "ledger"
        return [json.loads(line) for line in ledger.read_text().splitlines()] if ledger.exists() else []

    def done(self, what: str) -> list[dict[str, Any]]:
        """Return the notes of one kind."""
        return [line for line in self.lines() if line["what"] == what]


RUN = "desk-1"

scene = Scene()


def point(name: str) -> None:
    """Pass a point, or die there."""
    number = next(scene.passed)
    scene.write("point", name=name, number=number)
    if number == scene.dies_at:
        os.kill(os.getpid(), signal.SIGKILL)


class PointedModel(OpenAIChatCompletionsModel):
    """The SDK's own model, with points around each of its calls, which go over HTTP."""

    async def get_response(self, *args: Any, **kwargs: Any) -> Any:
        point("before a model")
        response = await super().get_response(*args, **kwargs)
        point("after a model")
        return response

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        point("before a model")
        number = 0
        async for event in super().stream_response(*args, **kwargs):
            number += 1
            if number == 3:
                point("in a model's answer")
            yield event
        point("after a model")


class PointedSession(SQLiteSession):
    """The SDK's own session, with points around each addition."""

    async def add_items(self, items: Any) -> None:
        point("before an addition")
        await super().add_items(items)
        point("after an addition")


def effect(name: str, **more: Any) -> None:
    """What a tool does to the world."""
    point(f"before {name}")
    scene.write(name, key=outlast.idempotency_key(), **more)
    point(f"in {name}")


@function_tool
async def weather(city: str) -> str:
    """Tell the weather."""
    effect("weather", city=city)
    return f"rain in {city}"


@function_tool
def look_up(topic: str) -> str:
    """Look something up, in a thread."""
    effect("look_up", topic=topic)
    return f"all about {topic}"


def find_payment(key: str, amount: int) -> Happened | DidNotHappen:
    """Tell whether a payment was made."""
    made = any(line["key"] == key for line in scene.done("pay"))
    return Happened(f"paid {amount}") if made else DidNotHappen()


@function_tool(needs_approval=True)
@outlast.effect("once", confirm=find_payment, settle=0.0)
async def pay(amount: int) -> str:
    """Pay."""
    effect("pay", amount=amount)
    return f"paid {amount}"


@function_tool(needs_approval=True)
async def notify(whom: str) -> str:
    """Tell somebody."""
    effect("notify", whom=whom)
    return f"told {whom}"


def says(asked: Asked) -> Reply:
    """What the models of all agents say: the same to the same conversation."""
    agent, results = asked.said(0), asked.results()
    if agent == "expert":
        return Reply("the expert says yes") if results else Reply(calls=(ToolCall("e1", "look_up", {"topic": "rain"}),))
    if agent == "closer":
        return Reply(" ".join(results[call] for call in sorted(results)))
    if not results:
        return Reply(calls=FIRST)
    return Reply(calls=(ToolCall("h1", "transfer_to_closer", {}),))


FIRST = (
    ToolCall("c1", "weather", {"city": "Paris"}),
    ToolCall("p1", "pay", {"amount": 3}),
    ToolCall("c2", "weather", {"city": "Rome"}),
    ToolCall("x1", "ask_expert", {"input": "is it so?"}),
    ToolCall("n1", "notify", {"whom": "ada"}),
)
ANSWER = 'rain in Paris rain in Rome {"assistant": "closer"} told ada paid 3 the expert says yes'


def make_agents() -> None:
    """Make the agents, whose model is the stand-in."""
    scene.client = client = AsyncOpenAI(base_url=scene.stand_in, api_key="none", max_retries=0)
    model: Model = PointedModel("stand-in", client)
    expert = Agent[Any]("expert", instructions="expert", model=model, tools=[look_up])
    closer = Agent[Any]("closer", instructions="closer", model=model)
    tools = [weather, pay, notify, expert.as_tool("ask_expert", "Ask the expert.")]
    front = Agent[Any]("front", instructions="front", model=model, tools=tools, handoffs=[closer])
    closer.handoffs = [front]
    scene.agents.update(front=front, closer=closer, expert=expert)


async def turn(given: Any, streamed: bool) -> Any:
    """Run the agent once."""
    session = PointedSession("desk", scene.folder / "sessions.db")
    try:
        if not streamed:
            return await Runner.run(scene.agents["front"], given, session=session)
        result = Runner.run_streamed(scene.agents["front"], given, session=session)
        async for _ in result.stream_events():
            pass
        return result
    finally:
        session.close()


@workflow(loop="native")
async def desk(goal: str, streamed: bool) -> str:
    """Do all of it."""
    result = await turn(goal, streamed)
    while result.interruptions:
        result = await turn(await decide(result), streamed)
    assert result.last_agent is scene.agents["closer"]
    return str(result.final_output)


def set_up(folder: Path, stand_in: str, dies_at: int | None = None) -> Scene:
    """Make the scene of this process."""
    scene.folder, scene.stand_in, scene.dies_at, scene.passed = folder, stand_in, dies_at, itertools.count()
    set_tracing_disabled(True)
    install()
    make_agents()
    return scene


def work_until_killed(folder: Path, url: str, streamed: bool, dies_at: int) -> None:
    """Start the run in this process, and work on it."""

    async def work() -> None:
        assert scene.client is not None
        async with scene.client, App(scene.store) as app:
            await (await app.start(desk("help", streamed), id=RUN)).result()

    set_up(folder, url, dies_at)
    asyncio.run(work())


def answer(store: str, approval: str, yes: bool, ledger: Path) -> None:
    """Answer an approval in this process, and note whether that counts."""

    async def say() -> None:
        async with App(store, worker=False) as app:
            try:
                await (app.approve if yes else app.reject)(approval, by="somebody")
            except AlreadyAnswered:
                return
        with ledger.open("a") as file:
            file.write(f"{approval} {'approved' if yes else 'rejected'}\n")

    asyncio.run(say())
