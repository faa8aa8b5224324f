"""An agent of one's own, over the plain client of OpenAI: parallel tools, a sub-agent, an approval, streamed answers.

Run as a program it does its work in a process that the tests kill:

    python -m tests.adapters.http.desk FOLDER STAND_IN_URL RUN_ID KIND [POINT]

It dies by SIGKILL at the point of this number, of those that it passes: before, in and after each call.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from openai import AsyncOpenAI

import outlast
from outlast import App, DidNotHappen, Happened, step, workflow
from outlast.http import DurableTransport
from tests.adapters.stand_in import Asked, Reply, ToolCall


@dataclass
class Scene:
    """Where this process works, and the number of the point at which it dies."""

    folder: Path = Path()
    stand_in: str = ""
    dies_at: int | None = None
    passed: Any = field(default_factory=itertools.count)

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


scene = Scene()


def point(name: str) -> None:
    """Pass a point, or die there."""
    number = next(scene.passed)
    scene.write("point", name=name, number=number)
    if number == scene.dies_at:
        os.kill(os.getpid(), signal.SIGKILL)


class Pointed(httpx2.AsyncHTTPTransport):
    """What sends the requests, with points around each."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        point("before a model")
        response = await super().handle_async_request(request)
        chunks: Any = response.stream

        async def passing() -> AsyncIterator[bytes]:
            number = 0
            async for chunk in chunks:
                number += 1
                if number == 1:
                    point("in a model's answer")
                yield chunk
            point("after a model")

        response.stream = Stream(passing(), response)
        return response


class Stream(httpx2.AsyncByteStream):
    """The answer with its points."""

    def __init__(self, chunks: AsyncIterator[bytes], response: httpx2.Response) -> None:
        self._chunks = chunks
        self._stream: Any = response.stream

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._chunks

    async def aclose(self) -> None:
        await self._stream.aclose()


def effect(name: str, **more: Any) -> None:
    """What a tool does to the world."""
    point(f"before {name}")
    scene.write(name, key=outlast.idempotency_key(), **more)
    point(f"in {name}")


@step
async def weather(city: str) -> str:
    """Tell the weather."""
    effect("weather", city=city)
    return f"rain in {city}"


@step
def look_up(topic: str) -> str:
    """Look something up, in a thread."""
    effect("look_up", topic=topic)
    return f"all about {topic}"


def find_payment(key: str, amount: int) -> Happened | DidNotHappen:
    """Tell whether a payment was made."""
    made = any(line["key"] == key for line in scene.done("pay"))
    return Happened(f"paid {amount}") if made else DidNotHappen()


@step(effect="once", confirm=find_payment, settle=0.0)
async def pay(amount: int) -> str:
    """Pay."""
    effect("pay", amount=amount)
    return f"paid {amount}"


def says(asked: Asked) -> Reply:
    """What the models of all agents say: the same to the same conversation."""
    agent, results = asked.said(0), asked.results()
    if agent == "expert":
        return Reply("the expert says yes") if results else Reply(calls=(ToolCall("e1", "look_up", {"topic": "rain"}),))
    return Reply(" ".join(results[call] for call in sorted(results))) if results else Reply(calls=FIRST)


FIRST = (
    ToolCall("c1", "weather", {"city": "Paris"}),
    ToolCall("p1", "pay", {"amount": 3}),
    ToolCall("c2", "weather", {"city": "Rome"}),
    ToolCall("x1", "expert", {"question": "is it so?"}),
)
ANSWER = "rain in Paris rain in Rome paid 3 the expert says yes"


class Desk:
    """The agents of one run."""

    def __init__(self, client: AsyncOpenAI, streamed: bool) -> None:
        self._client = client
        self._streamed = streamed

    async def talk(self, agent: str, given: str) -> str:
        """Let a model and tools talk until the model has no more to ask for."""
        messages: list[Any] = [{"role": "system", "content": agent}, {"role": "user", "content": given}]
        while True:
            text, calls = await self._ask(messages)
            if not calls:
                return text
            messages.append({"role": "assistant", "content": None, "tool_calls": calls})
            results = await asyncio.gather(*(self._call(call) for call in calls))
            messages += [
                {"role": "tool", "tool_call_id": call["id"], "content": result}
                for call, result in zip(calls, results, strict=True)
            ]

    async def _ask(self, messages: list[Any]) -> tuple[str, list[Any]]:
        if not self._streamed:
            answer = await self._client.chat.completions.create(model="stand-in", messages=messages)
            message = answer.choices[0].message
            return message.content or "", [call.model_dump() for call in message.tool_calls or []]
        text, found = "", []
        async for chunk in await self._client.chat.completions.create(model="m", messages=messages, stream=True):
            for choice in chunk.choices:
                text += choice.delta.content or ""
                found += [call.model_dump(exclude={"index"}) for call in choice.delta.tool_calls or []]
        return text, found

    async def _call(self, call: Any) -> str:
        name, given = call["function"]["name"], json.loads(call["function"]["arguments"])
        if name == "expert":
            with outlast.scope(call["id"]):
                return await self.talk("expert", given["question"])
        tool: Any = {"weather": weather, "look_up": look_up, "pay": pay}[name]
        if name == "pay" and not await outlast.approve(f"Pay {given['amount']}?", key=call["id"]):
            return "not paid"
        return str(await tool.options(key=call["id"]).call(**given))


@workflow(loop="native")
async def desk(goal: str, streamed: bool) -> str:
    """Do all of it."""
    transport = DurableTransport(Pointed(), stream="events")
    async with httpx2.AsyncClient(transport=transport) as http:
        client = AsyncOpenAI(base_url=scene.stand_in, api_key="a secret", http_client=http)
        return await Desk(client, streamed).talk("front", goal)


def set_up(folder: Path, stand_in: str, dies_at: int | None = None) -> Scene:
    """Make the scene of this process."""
    scene.folder, scene.stand_in, scene.dies_at, scene.passed = folder, stand_in, dies_at, itertools.count()
    return scene


async def main(run_id: str, streamed: bool) -> None:
    """Start the run, and work until it has ended."""
    async with App(scene.store) as app:
        run = await app.start(desk("help", streamed), id=run_id)
        await run.result()


if __name__ == "__main__":
    folder, url, run_id, kind, *numbers = sys.argv[1:]
    from tests.adapters.http import desk as this  # the module that the workflow's name says

    this.set_up(Path(folder), url, int(numbers[0]) if numbers else None)
    asyncio.run(this.main(run_id, kind == "streamed"))
