"""A desk: a graph with an agent, parallel tools, a sub-agent, a streamed answer and an approval; and its processes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware, ModelRequest
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph

import outlast
from outlast import App
from outlast.langgraph import Middleware, durable
from tests.adapters.effects import SETTING, die, effect, find
from tests.adapters.stand_in import Asked, Reply, ToolCall

URL = ""
"""Where the provider is."""


class Killer(AgentMiddleware[Any, Any, Any]):
    """Dies in the graph, around the calls that are recorded."""

    def __init__(self, agent: str) -> None:
        super().__init__()
        self._agent = agent

    async def awrap_model_call(self, request: ModelRequest[Any], handler: Callable[..., Awaitable[Any]]) -> Any:
        which = f"{self._agent}{1 + sum(message.type == 'ai' for message in request.messages)}"
        die(f"asks {which}")
        response = await handler(request)
        die(f"has {which}")
        return response

    async def awrap_tool_call(self, request: Any, handler: Callable[..., Awaitable[Any]]) -> Any:
        answer = await handler(request)
        call = request.tool_call
        die(f"has {call['name']}{'_' + call['args']['city'] if 'city' in call['args'] else ''}")
        return answer


WHAT = "what is a refund?"


def says(asked: Asked) -> Reply:
    """What the model says: it is all in the conversation."""
    answers = asked.results()
    if asked.said(0) == WHAT:
        if not answers:
            return Reply(calls=(ToolCall("s1", "lookup", {"word": "refund"}),))
        return Reply(text=f"The book says: {answers['s1']}")
    if not answers:
        return Reply(
            text="Let me see.",
            calls=(
                ToolCall("w1", "weather", {"city": "Rome"}),
                ToolCall("w2", "weather", {"city": "Paris"}),
                ToolCall("a1", "ask", {"question": WHAT}),
            ),
        )
    if "p1" not in answers:
        return Reply(calls=(ToolCall("p1", "pay", {"cents": 500}),))
    return Reply(text="All said: " + "; ".join(f"{call} {answers[call]}" for call in sorted(answers)))


def name_of(asked: Asked) -> str:
    """Return which request this is, as points have it."""
    agent = "sub" if asked.said(0) == WHAT else "main"
    return f"{agent}{1 + sum(message['role'] == 'assistant' for message in asked.messages)}"


def model(url: str = "") -> ChatOpenAI:
    """Return the real client of a provider that is at this address."""
    return ChatOpenAI(base_url=url or URL, api_key="none", model="stand-in", max_retries=0)  # type: ignore[arg-type]


@tool
def lookup(word: str) -> str:
    """Look a word up."""
    effect("lookup")
    return f"{word} is money back"


@tool
async def weather(city: str) -> str:
    """Say how the weather is."""
    effect(f"weather_{city}")
    return f"sun in {city}"


@tool
@outlast.effect("once", confirm=find)
def pay(cents: int) -> str:
    """Pay."""
    effect("pay")
    return f"paid {cents}"


@outlast.step
async def file_away(said: str) -> str:
    """Keep what was said."""
    effect("file_away")
    return f"filed: {said}"


async def close(state: MessagesState) -> dict[str, Any]:
    """A node that calls a step."""
    filed = await file_away(str(state["messages"][-1].content))
    die("has file_away")
    return {"messages": [("ai", filed)]}


def make() -> Any:
    """Return the graph."""
    sub = create_agent(model(), [lookup], middleware=[Killer("sub"), Middleware()], name="sub")

    @tool
    async def ask(question: str) -> str:
        """Ask another agent."""
        said = await sub.ainvoke({"messages": [("user", question)]})
        return str(said["messages"][-1].content)

    people = HumanInTheLoopMiddleware(interrupt_on={"pay": {"allowed_decisions": ["approve", "reject"]}})
    recorded = Middleware(effects={"ask": False}, tokens="tokens")
    agent = create_agent(model(), [weather, ask, pay], middleware=[people, Killer("main"), recorded], name="main")
    graph = StateGraph(MessagesState).add_node("agent", agent).add_node("close", close)
    return graph.add_edge(START, "agent").add_edge("agent", "close").compile(name="desk")


def work(store: str, url: str, effects: str, kill: str) -> None:
    """Be a process: run the graph to its end, or die."""
    global URL
    URL, SETTING.effects, SETTING.kill = url, Path(effects), kill
    desk = durable(make())

    async def main() -> None:
        async with App(store) as app:
            run = await app.start(desk({"messages": [("user", "hello")]}), id="desk-1")
            await run.result()

    asyncio.run(main())
