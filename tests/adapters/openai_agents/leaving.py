"""Agents that meet a tool or a model which asks the process to exit, and a process that runs them."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import Any

from agents import Agent, Runner, function_tool, set_tracing_disabled
from agents.models.openai_chatcompletions import OpenAIChatCompletionsModel
from openai import AsyncOpenAI

from outlast import App, workflow
from outlast.openai_agents import install


class Parser(OpenAIChatCompletionsModel):
    """A model that exits."""

    async def get_response(self, *args: Any, **kwargs: Any) -> Any:
        sys.exit(3)

    async def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        sys.exit(3)
        yield


@function_tool
async def leave() -> str:
    """Exit."""
    sys.exit(3)


@function_tool(name_override="leave")
def leave_in_thread() -> str:
    """Exit in a thread."""
    sys.exit(3)


@function_tool(name_override="leave", failure_error_function=None)
async def leave_for_good() -> str:
    """Exit, and have the run end by it."""
    sys.exit(3)


TOOLS = {"in a task": leave, "in a thread": leave_in_thread, "with its error": leave_for_good}


@workflow(loop="native")
async def leaving(url: str, how: str) -> str:
    """Run an agent that meets what exits."""
    async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
        made = Parser if how.startswith("model") else OpenAIChatCompletionsModel
        agent = Agent("helper", model=made("stand-in", client), tools=[TOOLS[how]] if how in TOOLS else [])
        if how != "model, streamed":
            return str((await Runner.run(agent, "help")).final_output)
        result = Runner.run_streamed(agent, "help")
        async for _ in result.stream_events():
            pass
        return str(result.final_output)


def work(store: str, url: str, how: str) -> None:
    """Start the run in this process, and work on it until it has ended."""

    async def main() -> None:
        async with App(store) as app:
            run = await app.start(leaving(url, how), id="leaving")
            with contextlib.suppress(Exception):
                await run.result()

    set_tracing_disabled(True)
    install()
    asyncio.run(main())
