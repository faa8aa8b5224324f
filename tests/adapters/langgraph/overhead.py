"""What Outlast adds to each call of a model and of a tool: `python -m tests.adapters.langgraph.overhead`.

A model that answers at once is asked by an agent as it is, by one with middleware that does nothing, and by one with
`Middleware()` in a run on a SQLite file. They are timed around each call, as the agent sees it; printed are medians, in
milliseconds. LangChain itself makes two trips to other threads for each call of each middleware: what Outlast adds is
told apart from that. Then whole turns of the graph: bare, on a `Saver` with durability "sync", as the run has it, and
as a run.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool

import outlast
from outlast import App
from outlast.langgraph import Middleware, Saver, durable

RUNS, WARM_UP = 30, 5
TURNS = 10  # a short conversation, so that what LangGraph does with a long one is not measured
GO = {"messages": [("user", "go")]}


class AtOnce(BaseChatModel):
    """Asks for one tool after another, and ends after so many turns."""

    @property
    def _llm_type(self) -> str:
        return "at once"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        turn = len(messages) // 2
        call = {"name": "reads" if turn % 2 else "acts", "args": {"n": turn}, "id": f"c{turn}"}
        message = AIMessage("done") if turn >= TURNS else AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return self._generate(messages)


@tool
@outlast.effect("pure")
async def reads(n: int) -> str:
    """Read."""
    return f"read {n}"


@tool
async def acts(n: int) -> str:
    """Act."""
    return f"did {n}"


class Timing(AgentMiddleware[Any, Any, Any]):
    """Takes the time of each call."""

    def __init__(self) -> None:
        super().__init__()
        self.ms: dict[str, list[float]] = {}

    async def _timed(self, name: str, call: Awaitable[Any]) -> Any:
        began = time.perf_counter()
        result = await call
        self.ms.setdefault(name, []).append((time.perf_counter() - began) * 1000)
        return result

    async def awrap_model_call(self, request: Any, handler: Callable[..., Awaitable[Any]]) -> Any:
        return await self._timed("call of a model", handler(request))

    async def awrap_tool_call(self, request: Any, handler: Callable[..., Awaitable[Any]]) -> Any:
        return await self._timed(f"call of a tool, {request.tool_call['name']}", handler(request))


class Idle(AgentMiddleware[Any, Any, Any]):
    """Does nothing."""

    async def awrap_model_call(self, request: Any, handler: Callable[..., Awaitable[Any]]) -> Any:
        return await handler(request)

    async def awrap_tool_call(self, request: Any, handler: Callable[..., Awaitable[Any]]) -> Any:
        return await handler(request)


def make(timing: Timing, *middleware: Any, **settings: Any) -> Any:
    """Return the agent."""
    return create_agent(AtOnce(), [reads, acts], middleware=[timing, *middleware], name="agent", **settings)


async def main() -> None:
    """Measure, and print a table."""
    bare, idle, in_run, whole = Timing(), Timing(), Timing(), Timing()
    plain, with_idle, agent = make(bare), make(idle, Idle()), durable(make(in_run, Middleware()))
    with tempfile.TemporaryDirectory() as folder:
        async with App(f"sqlite:///{Path(folder) / 'agent.db'}") as app:
            saved = make(Timing(), checkpointer=Saver(app))

            async def run() -> None:
                await (await app.start(agent(GO))).result()

            for n in range(WARM_UP + RUNS):
                if n == WARM_UP:
                    for timing in (bare, idle, in_run, whole):
                        timing.ms.clear()
                config: Any = {"configurable": {"thread_id": n}}
                await whole._timed("bare", plain.ainvoke(GO))
                await with_idle.ainvoke(GO)
                await whole._timed("on a Saver", saved.ainvoke(GO, config, durability="sync"))
                await whole._timed("as a run", run())
    for name, times in sorted(in_run.ms.items()):
        first, second, third = (statistics.median(ms) for ms in (bare.ms[name], idle.ms[name], times))
        sys.stdout.write(
            f"{name:<24} bare {first:6.3f}  with middleware {second:6.3f}  in a run {third:6.3f}  "
            f"added by Outlast {third - second:6.3f} ms p50\n"
        )
    for name, times in whole.ms.items():
        sys.stdout.write(f"a turn of the graph, {name:<12} {statistics.median(times) / (2 * TURNS + 1):6.3f} ms p50\n")


if __name__ == "__main__":
    asyncio.run(main())
