"""An agent does the same with Outlast as without: what its model is told, what it returns and raises."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    Model,
    ModelSettings,
    RunConfig,
    RunContextWrapper,
    RunHooks,
    Runner,
    ToolOutputText,
    TracingProcessor,
    function_tool,
    input_guardrail,
    output_guardrail,
    set_trace_processors,
    set_tracing_disabled,
)
from agents.run_config import CallModelData, ModelInputData
from pydantic import BaseModel

import outlast
from outlast import App
from tests.adapters.openai_agents.scenes import again, asked, durably, streamed
from tests.adapters.stand_in import Asked, Reply, Script, StandIn, ToolCall

Case = Callable[[Model], Awaitable[Any]]


class Weather(BaseModel):
    """What an agent is asked to return."""

    city: str
    degrees: float


@function_tool
async def weather(context: RunContextWrapper[Any], city: str) -> str:
    """Tell the weather."""
    return f"rain in {city} for {context.context}"


@function_tool
def broken() -> str:
    """Fail."""
    raise ValueError("the tool is broken")


@function_tool(failure_error_function=lambda context, error: f"{type(error).__name__}: {error}")
def told() -> str:
    """Fail, and say how."""
    raise OSError(2, "no such file")


@function_tool(failure_error_function=None)
def fatal() -> str:
    """Fail the run."""
    raise KeyError("fatal")


@function_tool(timeout=0.05)
async def slow() -> str:
    """Take too long."""
    await asyncio.sleep(30)
    return "never"


@function_tool
def rich() -> Any:
    """Give what is no text."""
    return ToolOutputText(text="some text")


@function_tool
def odd() -> Any:
    """Give what no journal keeps."""
    return object.__new__(type("Odd", (), {"__str__": lambda self: "an odd thing"}))


TOOLS = [weather, broken, told, fatal, slow, rich, odd]


def calls(*names: str) -> Script:
    """Have the model call tools, all at once, and then say what they gave."""

    def says(asked: Asked) -> Reply:
        results = asked.results()
        if results:
            return Reply(json.dumps(results, sort_keys=True))
        arguments = {"weather": {"city": "Rome"}}
        return Reply(calls=tuple(ToolCall(f"{name}-1", name, arguments.get(name, {})) for name in names))

    return says


def always(text: str, status: int = 200) -> Script:
    """Have the model say one thing."""
    return lambda _: Reply(text, status=status)


async def plain(model: Model) -> Any:
    return (await Runner.run(Agent("helper", model=model, tools=TOOLS), "help", context="ada")).final_output


async def with_settings(model: Model) -> Any:
    def shorter(data: CallModelData[Any]) -> ModelInputData:
        return ModelInputData([*data.model_data.input, {"role": "user", "content": "be brief"}], "filtered")

    config = RunConfig(model_settings=ModelSettings(temperature=0.3, max_tokens=7), call_model_input_filter=shorter)
    agent = Agent("helper", model=model, model_settings=ModelSettings(top_p=0.5))
    return (await Runner.run(agent, [{"role": "user", "content": "help"}], run_config=config)).final_output


async def typed(model: Model) -> Any:
    return (await Runner.run(Agent("helper", model=model, output_type=Weather), "help")).final_output


async def turned_away(model: Model) -> Any:
    @input_guardrail
    def check(context: Any, agent: Any, input: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info={"why": "rude"}, tripwire_triggered=True)

    try:
        await Runner.run(Agent("helper", model=model, input_guardrails=[check]), "help")
    except InputGuardrailTripwireTriggered as tripped:
        return tripped.guardrail_result.output.output_info, tripped.guardrail_result.guardrail is check


async def approved_output(model: Model) -> Any:
    @output_guardrail
    async def check(context: Any, agent: Any, output: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info=len(output), tripwire_triggered=False)

    result = await Runner.run(Agent("helper", model=model, output_guardrails=[check]), "help")
    return result.final_output, result.output_guardrail_results[0].output.output_info


async def observed(model: Model) -> Any:
    seen: list[str] = []
    agent = Agent("helper", model=model, tools=TOOLS)

    class Hooks(RunHooks[Any]):
        async def on_agent_start(self, context: Any, agent_: Any) -> None:
            seen.append(f"start {agent_ is agent}")

        async def on_tool_end(self, context: Any, agent_: Any, tool: Any, result: Any) -> None:
            seen.append(f"tool {tool is weather} {result}")

        async def on_agent_end(self, context: Any, agent_: Any, output: Any) -> None:
            seen.append(f"end {output} {context.usage.input_tokens} {context.usage.requests}")

    result = await Runner.run(agent, "help", hooks=Hooks(), context="ada")
    return seen, result.last_agent is agent, [type(item).__name__ for item in result.new_items]


async def by_name(model: Model) -> Any:
    class Provider:
        def get_model(self, name: str | None) -> Model:
            assert name == "the best"
            return model

        async def aclose(self) -> None:
            pass

    config: Any = RunConfig(model="the best")
    config.model_provider = Provider()
    return (await Runner.run(Agent("helper"), "help", run_config=config)).final_output


async def stopped_at_a_tool(model: Model) -> Any:
    agent = Agent("helper", model=model, tools=TOOLS, tool_use_behavior="stop_on_first_tool")
    return (await Runner.run(agent, "help", context="ada")).final_output


async def too_many_turns(model: Model) -> Any:
    return await Runner.run(Agent("helper", model=model, tools=TOOLS), "help", max_turns=1, context="ada")


async def in_pieces(model: Model) -> Any:
    result, pieces = await streamed(Agent("helper", model=model, tools=TOOLS), "help", context="ada")
    return result.final_output, pieces, [type(item).__name__ for item in result.new_items]


class Spans(TracingProcessor):
    """Notes the spans of a trace, with what they lie in."""

    def __init__(self) -> None:
        self.kinds: dict[str, str] = {}
        self.noted: list[str] = []

    def on_span_start(self, span: Any) -> None:
        self.kinds[span.span_id] = span.span_data.type

    def on_span_end(self, span: Any) -> None:
        self.noted.append(f"{span.span_data.type} in {self.kinds.get(span.parent_id or '', 'a trace')}")

    def on_trace_start(self, trace: Any) -> None:
        pass

    on_trace_end = on_trace_start

    def shutdown(self) -> None:
        pass

    force_flush = shutdown


who: ContextVar[str] = ContextVar("who", default="nobody")


@function_tool
async def asks_who() -> str:
    """Tell for whom this is."""
    return who.get()


async def in_its_context(model: Model) -> Any:
    who.set("ada")
    agent = Agent("helper", model=model, tools=[asks_who])
    whole = (await Runner.run(agent, "help")).final_output
    return whole, (await streamed(agent, "help"))[0].final_output


async def traced(model: Model) -> Any:
    spans = Spans()
    set_trace_processors([spans])
    set_tracing_disabled(False)
    try:
        await Runner.run(Agent("helper", model=model, tools=TOOLS), "help", context="ada")
        await streamed(Agent("helper", model=model, tools=TOOLS), "help", context="ada")
    finally:
        set_tracing_disabled(True)
        set_trace_processors([])
    return sorted(spans.noted)


SAME: list[tuple[Case, Script]] = [
    (plain, always("hello")),
    (plain, calls("weather")),
    (plain, calls("weather", "broken", "told", "slow", "rich", "odd")),
    (plain, calls("fatal")),
    (plain, calls("no_such_tool")),
    (plain, always("you ask too often", status=429)),
    (plain, always("out of order", status=500)),
    (with_settings, always("hello")),
    (typed, always('{"city": "Rome", "degrees": 12.5}')),
    (typed, always("no JSON")),
    (turned_away, always("hello")),
    (approved_output, always("hello")),
    (observed, calls("weather")),
    (by_name, always("hello")),
    (stopped_at_a_tool, calls("weather")),
    (too_many_turns, calls("weather")),
    (in_its_context, calls("asks_who")),
    (traced, calls("weather")),
    (in_pieces, always("hello to you")),
    (in_pieces, calls("weather")),
    (in_pieces, always("out of order", status=500)),
]


@pytest.mark.parametrize(("case", "script"), SAME)
def test_an_agent_does_the_same_with_outlast_and_without(case: Case, script: Script, tmp_path: Path) -> None:
    async def main() -> None:
        async with asked(script, tmp_path) as (model, stand_in):
            expected = await _outcome(lambda: case(model))
            bodies = _bodies(stand_in)
            seen: list[Any] = []

            async def in_a_run() -> None:
                seen.append(await _outcome(lambda: case(model)))

            await durably(in_a_run, tmp_path)
            assert seen == [expected]
            assert _bodies(stand_in) == bodies + [_asking_for_usage(body) for body in bodies]

    asyncio.run(main())


async def _outcome(act: Callable[[], Awaitable[Any]]) -> Any:
    try:
        return await act()
    except Exception as error:  # noqa: BLE001 - compared, whatever it is
        return type(error), str(error)


def _bodies(stand_in: StandIn) -> list[dict[str, Any]]:
    return stand_in.asked()


def _asking_for_usage(body: dict[str, Any]) -> dict[str, Any]:
    """Return the request with what Outlast adds to it: that a streamed answer is to tell what it used."""
    return body | {"stream_options": {"include_usage": True}} if body.get("stream") else body


def test_an_agent_in_a_step_is_part_of_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with asked(calls("weather"), tmp_path) as (model, _):

            async def work() -> str:
                agent = Agent("helper", model=model, tools=TOOLS)
                return str((await Runner.run(agent, "help", context="ada")).final_output)

            async def body() -> Any:
                return await outlast.call(work)

            assert await durably(body, tmp_path) == '{"weather-1": "rain in Rome for ada"}'
            async with App(f"sqlite:///{tmp_path}/runs.db", worker=False) as app:
                assert [step.name for step in await (await app.get("scene")).steps()] == ["work"]

    asyncio.run(main())


@pytest.mark.parametrize("pieces", [False, True])
def test_an_agent_in_another_thread_is_recorded(pieces: bool, tmp_path: Path) -> None:
    async def main() -> None:
        async with asked(calls("weather"), tmp_path) as (model, stand_in):
            agent = Agent("helper", model=model, tools=TOOLS)

            def work() -> Any:
                with asyncio.Runner() as runner:
                    asyncio.set_event_loop(runner.get_loop())
                    if pieces:
                        return runner.run(streamed(agent, "help", context="ada"))[0].final_output
                    return Runner.run_sync(agent, "help", context="ada").final_output

            async def body() -> Any:
                return await asyncio.to_thread(work)

            assert await durably(body, tmp_path) == '{"weather-1": "rain in Rome for ada"}'
            async with App(f"sqlite:///{tmp_path}/runs.db", worker=False) as app:
                steps = [step.name for step in await (await app.get("scene")).steps()]
            assert steps == ["model", "weather", "model"]
            assert len(stand_in.asked()) == 2

    asyncio.run(main())


def test_agents_of_one_name_at_once_are_told_apart_by_their_input(tmp_path: Path) -> None:
    fails = [True]

    def says(asked: Asked) -> Reply:
        return Reply(f"about {asked.said(-1)}")

    async def main() -> None:
        async with asked(says, tmp_path) as (model, stand_in):
            agent = Agent[Any]("helper", model=model)

            async def one(number: int) -> str:
                await asyncio.sleep(0.001 * (number * 7 % 5) * (1 if fails else 3))  # in another order each time
                return str((await Runner.run(agent, f"topic {number}")).final_output)

            async def body() -> list[str]:
                answers = await asyncio.gather(*(one(number) for number in range(20)))
                if fails:
                    raise RuntimeError("once more")
                return answers

            with pytest.raises(RuntimeError, match="once more"):
                await durably(body, tmp_path)
            fails.clear()
            assert await again(tmp_path) == [f"about topic {number}" for number in range(20)]
            assert len(stand_in.asked()) == 20

    asyncio.run(main())
