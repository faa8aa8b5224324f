"""What calls cost more in a workflow, on SQLite: python -m tests.adapters.crewai.overhead."""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from statistics import median
from typing import Any

os.environ.update(CREWAI_DISABLE_TELEMETRY="true", CREWAI_DISABLE_TRACKING="true", OTEL_SDK_DISABLED="true")
os.environ.update(CREWAI_TRACING_ENABLED="false", CREWAI_TESTING="true")
warnings.simplefilter("ignore")

from crewai import Agent, BaseLLM, Crew, Task  # noqa: E402
from crewai.tools import tool  # noqa: E402

import outlast  # noqa: E402
from outlast import App, workflow  # noqa: E402
from outlast.crewai import durable  # noqa: E402

TIMES = 300


@tool("look")
@outlast.effect("pure")
def look(word: str) -> str:
    """Look up."""
    return word


@tool("change")
def change(word: str) -> str:
    """Change something: this begins when all that was recorded before is committed."""
    return word


class Scripted(BaseLLM):
    """Answers at once."""

    def call(self, messages: Any, tools: Any = None, **kwargs: Any) -> Any:
        """Answer."""
        return "done"


def a_crew() -> Crew:
    """Return a crew whose model and tools do nothing."""
    agent = Agent(role="one", goal="g", backstory="b", llm=Scripted(model="m"), tools=[look, change])
    return Crew(agents=[agent], tasks=[Task(description="d", expected_output="e", agent=agent)])


def measured(crew: Crew, clock: Callable[[], float]) -> list[float]:
    """Return how long calls take, made in turns in a thread, as the framework makes them; in milliseconds."""
    agent: Any = crew.agents[0]
    calls = [lambda n: agent.llm.call(f"{n}"), *(lambda n, of=of: of.run(word=f"{n}") for of in agent.tools)]
    took: list[list[float]] = [[] for _ in calls]
    for n in range(TIMES):
        for call, times in zip(calls, took, strict=True):
            began = clock()
            call(n)
            times.append(clock() - began)
    return [1000 * median(times) for times in took]


@workflow(loop="native")
async def in_a_run(cpu: bool) -> list[float]:
    """Measure in a run."""
    clock = time.process_time if cpu else time.monotonic
    return await asyncio.to_thread(measured, durable(a_crew()), clock)


async def main() -> None:
    """Print the medians: time that passes, and time that the process works, which a busy machine leaves alone."""
    with tempfile.TemporaryDirectory() as folder:
        for cpu, name in ((False, "passes"), (True, "is worked")):
            clock = time.process_time if cpu else time.monotonic
            bare = await asyncio.to_thread(measured, a_crew(), clock)
            async with App(f"sqlite:///{folder}/a.db") as app:
                with_outlast = await (await app.start(in_a_run(cpu), id=name)).result()
            more = [durable - plain for durable, plain in zip(with_outlast, bare, strict=True)]
            print(  # noqa: T201
                f"p50 of {TIMES}, time that {name}: a model call {more[0]:+.2f} ms, "
                f"a pure tool call {more[1]:+.2f} ms, one that waits for the commit {more[2]:+.2f} ms"
            )


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    asyncio.run(main())
