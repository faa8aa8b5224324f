"""What a guardrail has decided stays decided, and the agents that it asks are recorded."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrail,
    InputGuardrailTripwireTriggered,
    OutputGuardrail,
    OutputGuardrailTripwireTriggered,
    Runner,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolOutputGuardrail,
    function_tool,
)

from tests.adapters.openai_agents.scenes import again, asked, durably
from tests.adapters.stand_in import Asked, Reply, ToolCall


def hello(asked: Asked) -> Reply:
    """Say hello."""
    return Reply("hello")


class Moody:
    """A guardrail's function that decides otherwise whenever it is asked."""

    def __init__(self, *, first: bool) -> None:
        self.next = first
        self.asked = 0

    async def __call__(self, *args: Any) -> GuardrailFunctionOutput:
        self.asked += 1
        decided, self.next = self.next, not self.next
        return GuardrailFunctionOutput(output_info={"time": self.asked}, tripwire_triggered=decided)


async def _twice(body: Any, folder: Path) -> Any:
    """Run a body that fails at its end, and again, from the journal; return what each of both saw."""
    seen: list[Any] = []

    async def recorded() -> None:
        seen.append(await body())
        if len(seen) == 1:
            raise RuntimeError("once more")

    with pytest.raises(RuntimeError, match="once more"):
        await durably(recorded, folder)
    await again(folder)
    return seen


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("trips", [False, True])
def test_a_verdict_on_input_holds_in_a_replay(trips: bool, parallel: bool, tmp_path: Path) -> None:
    moody = Moody(first=trips)
    guardrail = InputGuardrail(moody, name="mood", run_in_parallel=parallel)

    async def main() -> None:
        async with asked(hello, tmp_path) as (model, stand_in):

            async def body() -> Any:
                try:
                    return (
                        await Runner.run(Agent("helper", model=model, input_guardrails=[guardrail]), "hi")
                    ).final_output
                except InputGuardrailTripwireTriggered as tripped:
                    return tripped.guardrail_result.output.output_info

            first, second = await _twice(body, tmp_path)
            assert first == second == ({"time": 1} if trips else "hello")
            assert len(stand_in.asked()) <= (1 if parallel or not trips else 0)

    asyncio.run(main())
    assert moody.asked == 2


@pytest.mark.parametrize("trips", [False, True])
def test_a_verdict_on_output_holds_in_a_replay(trips: bool, tmp_path: Path) -> None:
    guardrail = OutputGuardrail(Moody(first=trips), name="mood")

    async def main() -> None:
        async with asked(hello, tmp_path) as (model, stand_in):

            async def body() -> Any:
                try:
                    return (
                        await Runner.run(Agent("helper", model=model, output_guardrails=[guardrail]), "hi")
                    ).final_output
                except OutputGuardrailTripwireTriggered as tripped:
                    return tripped.guardrail_result.output.output_info

            first, second = await _twice(body, tmp_path)
            assert first == second == ({"time": 1} if trips else "hello")
            assert len(stand_in.asked()) == 1

    asyncio.run(main())


def test_verdicts_on_a_call_of_a_tool_hold_in_a_replay(tmp_path: Path) -> None:
    counted = [0, 0]

    def before(data: Any) -> ToolGuardrailFunctionOutput:
        counted[0] += 1
        if counted[0] % 2:
            return ToolGuardrailFunctionOutput.allow()
        return ToolGuardrailFunctionOutput.reject_content("not this time")

    def after(data: Any) -> ToolGuardrailFunctionOutput:
        counted[1] += 1
        return ToolGuardrailFunctionOutput.reject_content(f"hidden {counted[1]}")

    @function_tool(
        tool_input_guardrails=[ToolInputGuardrail(before)], tool_output_guardrails=[ToolOutputGuardrail(after)]
    )
    def secret() -> str:
        return "the secret"

    def says(asked: Asked) -> Reply:
        results = asked.results()
        return Reply(results["c1"]) if results else Reply(calls=(ToolCall("c1", "secret", {}),))

    async def main() -> None:
        async with asked(says, tmp_path) as (model, stand_in):

            async def body() -> Any:
                return (await Runner.run(Agent("helper", model=model, tools=[secret]), "hi")).final_output

            assert await _twice(body, tmp_path) == ["hidden 1", "hidden 1"]
            assert len(stand_in.asked()) == 2

    asyncio.run(main())


def test_an_agent_that_a_guardrail_asks_is_recorded(tmp_path: Path) -> None:
    async def main() -> None:
        async with asked(lambda asked: Reply(asked.said(0)), tmp_path) as (model, stand_in):
            judge = Agent[Any]("judge", instructions="fine", model=model)

            async def check(context: Any, agent: Any, input: Any) -> GuardrailFunctionOutput:
                judged = await Runner.run(judge, input)
                return GuardrailFunctionOutput(judged.final_output, tripwire_triggered=judged.final_output != "fine")

            agent = Agent[Any]("helper", instructions="done", model=model, input_guardrails=[InputGuardrail(check)])

            async def body() -> Any:
                return (await Runner.run(agent, "hi")).final_output

            assert await _twice(body, tmp_path) == ["done", "done"]
            assert len(stand_in.asked()) == 2

    asyncio.run(main())


def test_a_model_that_was_still_asked_when_a_guardrail_tripped_is_not_asked_again(tmp_path: Path) -> None:
    tripped = threading.Event()

    def slow(asked: Asked) -> Reply:
        assert tripped.wait(20)
        return Reply("too late")

    async def check(context: Any, agent: Any, input: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(None, tripwire_triggered=True)

    async def main() -> None:
        async with asked(slow, tmp_path) as (model, stand_in):
            agent = Agent[Any]("helper", model=model, input_guardrails=[InputGuardrail(check)])

            async def body() -> Any:
                with pytest.raises(InputGuardrailTripwireTriggered):
                    await Runner.run(agent, "hi")
                tripped.set()
                return "turned away"

            assert await _twice(body, tmp_path) == ["turned away"] * 2
            assert len(stand_in.asked()) <= 1

    asyncio.run(main())
