"""What calls cost more in a workflow, on SQLite: python -m tests.adapters.crewai.overhead."""

from __future__ import annotations

import asyncio
import json
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

from outlast import App, workflow  # noqa: E402
from outlast.crewai import durable  # noqa: E402

CALLS = 20
TIMES = 20


@tool("look")
def look(word: str) -> str:
    """Look up."""
    return word


class Scripted(BaseLLM):
    """Answers at once, after so many turns: with calls of a tool, or with text that the framework cannot use."""

    tools_per_turn: int = 0
    turns: int = CALLS

    def supports_function_calling(self) -> bool:
        """Tell that it can."""
        return True

    def call(self, messages: Any, tools: Any = None, **kwargs: Any) -> Any:
        """Answer."""
        done = sum(message["role"] == "assistant" for message in messages)
        if done >= self.turns:
            return "done"
        calls = [{"word": f"{done} {n}"} for n in range(self.tools_per_turn)]
        return [
            {"id": args["word"], "type": "function", "function": {"name": "look", "arguments": json.dumps(args)}}
            for args in calls
        ]


async def measured(
    tools_per_turn: int, wrap: Callable[[Crew], Crew] = lambda crew: crew, clock: Callable[[], float] = time.monotonic
) -> float:
    """Return how long a kickoff takes, in milliseconds."""
    took = []
    for _ in range(TIMES):
        agent = Agent(
            role="one",
            goal="g",
            backstory="b",
            llm=Scripted(model="m", tools_per_turn=tools_per_turn),
            tools=[look],
            max_iter=2 * CALLS,
        )
        crew = wrap(Crew(agents=[agent], tasks=[Task(description="d", expected_output="e", agent=agent)]))
        began = clock()
        await crew.akickoff()
        took.append(clock() - began)
    return 1000 * median(took)


@workflow(loop="native")
async def in_a_run(cpu: bool) -> list[float]:
    """Measure in a run."""
    clock = time.process_time if cpu else time.monotonic
    return [await measured(tools, durable, clock) for tools in (1, 2)]


async def main() -> None:
    """Print the medians: time that passes, and time that the process works, which a busy machine leaves alone."""
    with tempfile.TemporaryDirectory() as folder:
        await measured(1)
        for cpu, name in ((False, "passes"), (True, "is worked")):
            clock = time.process_time if cpu else time.monotonic
            bare = [await measured(tools, clock=clock) for tools in (1, 2)]
            async with App(f"sqlite:///{folder}/a.db") as app:
                with_outlast = await (await app.start(in_a_run(cpu), id=name)).result()
            both = [(durable - plain) / CALLS for durable, plain in zip(with_outlast, bare, strict=True)]
            tool_call = both[1] - both[0]
            print(  # noqa: T201
                f"p50 of {TIMES} kickoffs with {CALLS} turns, time that {name}: "
                f"a model call {both[0] - tool_call:+.2f} ms, a tool call {tool_call:+.2f} ms "
                f"(a turn alone: {bare[0] / CALLS:.2f} ms)"
            )


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    asyncio.run(main())
