"""What a call costs more with Outlast than without: `python -m tests.adapters.openai_agents.overhead`.

A model that answers at once is asked again and again, first alone, then with one call of a tool in each turn. Prints
the p50 of a call in milliseconds, bare and on SQLite, and the difference.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import sys
import tempfile
import time
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, Usage, function_tool, set_tracing_disabled
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from outlast import App, workflow
from outlast.openai_agents import install

CALLS = 200
ROUNDS = 4

clock: list[float] = []


@function_tool
async def nothing() -> str:
    """Do nothing."""
    return "done"


class Ready(Model):
    """A model that knows what to say: to call the tool, until it was called so often."""

    def __init__(self, calls: int) -> None:
        self.calls = calls

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:
        clock.append(time.perf_counter())
        made = sum(1 for item in input if isinstance(item, dict) and item.get("type") == "function_call_output")
        output: Any = ResponseFunctionToolCall(call_id=f"c{made}", name="nothing", arguments="{}", type="function_call")
        if made >= self.calls:
            text = ResponseOutputText(text="x" * 500, type="output_text", annotations=[])
            output = ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
        return ModelResponse(output=[output], usage=Usage(requests=1), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


async def ask() -> None:
    """Ask the model alone, again and again."""
    agent = Agent[Any]("alone", model=Ready(0))
    for number in range(CALLS):
        await Runner.run(agent, str(number))


async def work() -> None:
    """Have the model call a tool, in short conversations: the SDK's own turns grow longer with the conversation."""
    agent = Agent[Any]("at work", model=Ready(10), tools=[nothing])
    for number in range(CALLS // 10):
        await Runner.run(agent, str(number), max_turns=None)
        clock.append(float("nan"))


@workflow(loop="native")
async def durably(kind: str) -> None:
    """Do one of both in a run."""
    await {"ask": ask, "work": work}[kind]()


def p50_ms() -> float:
    """Return the p50 of the times between calls of the model, in milliseconds."""
    times = [after - before for before, after in itertools.pairwise(clock)]
    clock.clear()
    return statistics.median(sorted(t for t in times if t == t)) * 1000


async def main() -> None:
    """Measure in turns, so that a busy moment of the machine is in both, and print a line for each kind."""
    set_tracing_disabled(True)
    bare: dict[str, list[float]] = {"ask": [], "work": []}
    durable: dict[str, list[float]] = {"ask": [], "work": []}
    install()
    with tempfile.TemporaryDirectory() as folder:
        async with App(f"sqlite:///{folder}/runs.db") as app:
            for _ in range(ROUNDS):
                for kind, function in (("ask", ask), ("work", work)):
                    clock.clear()
                    await function()
                    bare[kind].append(p50_ms())
                    await (await app.start(durably(kind))).result()
                    durable[kind].append(p50_ms())
    for label, kind in (("a call of a model", "ask"), ("a call of a model and of a tool", "work")):
        plain, kept = min(bare[kind][1:]), min(durable[kind][1:])  # the first round warms up
        sys.stdout.write(f"{label}: {plain:.2f} ms bare, {kept:.2f} ms durable, {kept - plain:.2f} ms more\n")


if __name__ == "__main__":
    asyncio.run(main())
