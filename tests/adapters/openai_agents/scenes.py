"""Agents whose models are a stand-in, run plainly and in runs of Outlast."""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from agents import Model, Runner
from agents.models.openai_chatcompletions import OpenAIChatCompletionsModel
from openai import AsyncOpenAI

from outlast import App, workflow
from tests.adapters.stand_in import Script, StandIn, serving

PROGRAMS = tuple(f"tests.adapters.openai_agents.{name}" for name in ("desk", "chats", "leaving"))

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(list(PROGRAMS))
"""Makes real processes, each forked from one that has imported the SDK: that takes seconds."""

Scenario = Callable[[], Awaitable[Any]]

scenario: Scenario | None = None
"""What the workflow `scene` does."""


@workflow(loop="native")
async def scene() -> Any:
    """Do what the test says."""
    assert scenario is not None
    return await scenario()


async def durably(what: Scenario, folder: Path, **settings: Any) -> Any:
    """Do it in a run, and return its result."""
    global scenario
    scenario = what
    async with App(f"sqlite:///{folder}/runs.db", **settings) as app:
        return await (await app.start(scene(), id="scene")).result()


async def again(folder: Path, what: Scenario | None = None, id: str = "scene") -> Any:
    """Resume the run that has failed in an App of its own: its body runs again, and is told what is recorded."""
    global scenario
    scenario = what or scenario
    async with App(f"sqlite:///{folder}/runs.db") as app:
        await app.resume(id)
        return await (await app.get(id)).result()


@contextlib.asynccontextmanager
async def asked(script: Script, folder: Path) -> AsyncIterator[tuple[Model, StandIn]]:
    """Return a model of the SDK's own that talks to a stand-in, and the stand-in."""
    with serving(script, folder / "asked") as stand_in:
        async with AsyncOpenAI(base_url=stand_in.url, api_key="none", max_retries=0) as client:
            yield OpenAIChatCompletionsModel("stand-in", client), stand_in


async def streamed(agent: Any, given: Any, **more: Any) -> tuple[Any, list[str]]:
    """Run an agent streamed; return its result, and the pieces of text that went by."""
    result = Runner.run_streamed(agent, given, **more)
    pieces = [
        event.data.delta
        async for event in result.stream_events()
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
    ]
    return result, pieces
