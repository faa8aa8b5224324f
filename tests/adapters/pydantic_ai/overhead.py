"""What Outlast adds to each request and each call of a tool: `python -m tests.adapters.pydantic_ai.overhead`.

A model that answers at once is asked, by an agent as it is and by one with `Durable()` in a run on a SQLite file. Both
are timed around each call, as the agent sees it; what is printed are medians, in milliseconds.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

import outlast
from outlast import App, workflow
from outlast.pydantic_ai import Durable

RUNS = 40
TURNS = 10  # the framework looks at the whole conversation with each request: a short one, so that this is not measured


class Timing(AbstractCapability[Any]):
    """Takes the time of each request and each call of a tool."""

    def __init__(self) -> None:
        self.ms: dict[str, list[float]] = {}

    async def wrap_model_request(self, ctx: Any, *, request_context: Any, handler: Any) -> Any:
        began = time.perf_counter()
        response = await handler(request_context)
        self.ms.setdefault("request to a model", []).append((time.perf_counter() - began) * 1000)
        return response

    async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
        began = time.perf_counter()
        result = await handler(args)
        self.ms.setdefault(f"call of a tool, {call.tool_name}", []).append((time.perf_counter() - began) * 1000)
        return result


def says(messages: Any, info: Any) -> ModelResponse:
    """Ask for one tool after another, and end after so many turns."""
    turn = len(messages) // 2
    if turn >= TURNS:
        return ModelResponse(parts=[TextPart("done")])
    return ModelResponse(parts=[ToolCallPart("reads" if turn % 2 else "acts", {"n": turn}, tool_call_id=f"c{turn}")])


def make(timing: Timing, *capabilities: Any) -> Agent[None, str]:
    """Return the agent."""
    agent = Agent(FunctionModel(says), name="agent", capabilities=[timing, *capabilities])

    @agent.tool_plain
    @outlast.effect("pure")
    async def reads(n: int) -> str:
        return f"read {n}"

    @agent.tool_plain
    async def acts(n: int) -> str:
        return f"did {n}"

    return agent


async def main() -> None:
    """Measure, and print a table."""
    bare, durable = Timing(), Timing()
    plain, agent = make(bare), make(durable, Durable())

    @workflow(loop="native")
    async def go() -> str:
        return (await agent.run("go")).output

    with tempfile.TemporaryDirectory() as folder:
        async with App(f"sqlite:///{Path(folder) / 'agent.db'}") as app:
            for n in range(RUNS + 5):
                if n == 5:  # the first ones warm up
                    bare.ms.clear()
                    durable.ms.clear()
                await plain.run("go")
                await (await app.start(go())).result()
    for name, times in sorted(durable.ms.items()):
        without, with_outlast = statistics.median(bare.ms[name]), statistics.median(times)
        added = with_outlast - without
        sys.stdout.write(f"{name:<24} bare {without:6.3f}  durable {with_outlast:6.3f}  added {added:6.3f} ms p50\n")


if __name__ == "__main__":
    asyncio.run(main())
