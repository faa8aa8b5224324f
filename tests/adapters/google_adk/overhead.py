"""What calls cost more in a workflow, on SQLite: python -m tests.adapters.google_adk.overhead."""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
import warnings
from collections.abc import AsyncIterator, Callable
from statistics import median
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

from outlast import App, workflow
from outlast.google_adk import Plugin
from tests.adapters.google_adk.program import message_of, runner_of

TIMES = 200


def look(word: str) -> str:
    """Look up."""
    return word


class Scripted(BaseLlm):
    """Answers at once; where it is told so, by a call of a tool first."""

    calls: bool = False

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> AsyncIterator[Any]:
        answered = any(part.function_response for content in llm_request.contents for part in content.parts or [])
        call = types.Part.from_function_call(name="look", args={"word": "x"})
        part = call if self.calls and not answered else types.Part(text="done")
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


async def measured(calls: bool, *plugins: Any, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return how long an invocation takes, in milliseconds."""
    agent = LlmAgent(name="main", model=Scripted(model="m", calls=calls), tools=[look])
    took = []
    for n in range(TIMES):
        runner = runner_of(agent, plugins=list(plugins))
        await runner.session_service.create_session(app_name="desk", user_id="u", session_id=str(n))
        began = clock()
        async for _ in runner.run_async(user_id="u", session_id=str(n), new_message=message_of("go")):
            pass
        took.append(clock() - began)
    return 1000 * median(took)


@workflow(loop="native")
async def durable(cpu: bool) -> list[float]:
    """Measure in a run."""
    clock = time.thread_time if cpu else time.perf_counter
    return [await measured(calls, Plugin(), clock=clock) for calls in (False, True)]


async def main() -> None:
    """Print the medians: time that passes, and time that the loop's thread works, which a busy machine leaves alone."""
    with tempfile.TemporaryDirectory() as folder:
        await measured(True)
        for cpu, name in ((False, "passes"), (True, "is worked")):
            clock = time.thread_time if cpu else time.perf_counter
            bare = [await measured(calls, clock=clock) for calls in (False, True)]
            async with App(f"sqlite:///{folder}/a.db") as app:
                with_outlast = await (await app.start(durable(cpu))).result()
            model = with_outlast[0] - bare[0]
            tool = with_outlast[1] - bare[1] - 2 * model
            print(f"p50 of {TIMES}, time that {name}: a model call {model:+.2f} ms, a tool call {tool:+.2f} ms")  # noqa: T201


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    asyncio.run(main())
