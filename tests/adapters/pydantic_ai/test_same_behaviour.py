"""An agent in a workflow does what it does outside: the same is seen and comes of it, or it is refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, ExternalToolset, FunctionToolset, RunContext, ToolDefinition, UsageLimits
from pydantic_ai.capabilities import PrepareTools, ProcessHistory
from pydantic_ai.exceptions import ModelRetry, UnexpectedModelBehavior, UsageLimitExceeded, UserError
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.output import PromptedOutput, ToolOutput
from pydantic_ai.usage import RunUsage

from outlast import App, workflow
from outlast.pydantic_ai import Durable
from tests.adapters.pydantic_ai.provider import Provider
from tests.adapters.stand_in import Asked, Reply, ToolCall
from tests.behaviour.stage import OpenApp


class City(BaseModel):
    """What some runs are to return."""

    name: str


@dataclass
class Deps:
    """What tools are given."""

    tenant: str


Run = Callable[["Agent[Any, Any]"], Awaitable[Any]]


async def _history(agent: Agent[Any, Any]) -> Any:
    old = [ModelRequest(parts=[UserPromptPart("before")]), ModelResponse(parts=[TextPart("said before")])]
    return (await agent.run("go", message_history=old)).output


async def _usage(agent: Agent[Any, Any]) -> Any:
    usage = RunUsage(requests=3)
    await agent.run("go", usage=usage)
    return [usage.requests, usage.input_tokens, usage.tool_calls]


async def _limit(agent: Agent[Any, Any]) -> Any:
    return (await agent.run("go", usage_limits=UsageLimits(tool_calls_limit=0))).output


async def _external(agent: Agent[Any, Any]) -> Any:
    given = ToolDefinition(name="outside", parameters_json_schema={"type": "object", "properties": {}})
    return (await agent.run("go", toolsets=[ExternalToolset([given], id="outside")])).output


async def _overridden(agent: Agent[Any, Any]) -> Any:
    with agent.override(instructions="be odd", deps=Deps("other")):
        return (await agent.run("go")).output


async def _streamed(agent: Agent[Any, Any]) -> Any:
    async with agent.run_stream("go", instructions="be brief") as answer:
        return await answer.get_output()


async def _events(agent: Agent[Any, Any]) -> Any:
    async with agent.run_stream_events("go", deps=Deps("acme")) as events:
        return [type(event).__name__ async for event in events][-1]


async def _iterated(agent: Agent[Any, Any]) -> Any:
    async with agent.iter("go", deps=Deps("acme")) as running:
        return [type(node).__name__ async for node in running]


def _plain(**named: Any) -> Run:
    async def run(agent: Agent[Any, Any]) -> Any:
        return (await agent.run("go", **named)).output

    return run


RUNS: dict[str, Run] = {
    "plainly": _plain(),
    "deps": _plain(deps=Deps("acme")),
    "instructions": _plain(instructions="be brief"),
    "model_settings": _plain(model_settings={"temperature": 0.5, "max_tokens": 7, "seed": 3}),
    "output_type": _plain(output_type=City),
    "output_type, told": _plain(output_type=PromptedOutput(City)),
    "output_type, a tool": _plain(output_type=[ToolOutput(City, name="city"), str]),
    "metadata": _plain(metadata={"for": "acme"}),
    "conversation_id": _plain(conversation_id="c-1"),
    "run_id": _plain(run_id="r-1"),
    "model, by name": _plain(model="second"),
    "timeout": _plain(timeout=30),
    "capabilities": _plain(capabilities=[PrepareTools(lambda ctx, tools: _none(tools))]),
    "history processor": _plain(capabilities=[ProcessHistory(lambda messages: messages[-3:])]),
    "message_history": _history,
    "usage": _usage,
    "usage_limits": _limit,
    "toolsets, of others": _external,
    "override": _overridden,
    "run_stream": _streamed,
    "run_stream_events": _events,
    "iter": _iterated,
}


def _none(tools: list[ToolDefinition]) -> list[ToolDefinition]:
    return [tool for tool in tools if tool.name != "act"]


def _says(asked: Asked) -> Reply:
    tools = {tool["function"]["name"] for tool in asked.body.get("tools", ())}
    said = str(asked.messages)
    if "act" in tools and not asked.results():
        return Reply(calls=(ToolCall("c1", "act", {"amount": 2}),))
    for name in ("city", "final_result"):
        if name in tools:
            return Reply(calls=(ToolCall("f1", name, {"name": "Rome"}),))
    return Reply('{"name": "Rome"}' if "JSON" in said else f"done after {len(asked.messages)}")


def _make(provider: Provider) -> Agent[Any, Any]:
    agent: Agent[Any, Any] = Agent(
        provider.model(),
        name="agent",
        deps_type=Deps,
        instructions="be good",
        capabilities=[Durable(models={"second": provider.model()})],
    )

    @agent.tool(retries=2)
    async def act(ctx: RunContext[Any], amount: int) -> dict[str, Any]:
        """Act."""
        if ctx.retry == 0 and ctx.deps == Deps("retry"):
            raise ModelRetry("once more")
        return {"amount": amount, "tenant": getattr(ctx.deps, "tenant", None), "step": ctx.run_step}

    return agent


async def _outcome(run: Run, agent: Agent[Any, Any]) -> Any:
    try:
        return repr(await run(agent))
    except Exception as error:  # noqa: BLE001 - both are to end alike
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("how", RUNS)
async def test_an_argument_of_one_call_has_the_effect_that_it_has(
    how: str, provider: Provider, open_app: OpenApp
) -> None:
    provider.script = _says
    agent = _make(provider)
    bare = await _outcome(RUNS[how], agent)
    asked = provider.stand_in.asked()
    assert ("Error" in bare or "Exceeded" in bare) == (how == "usage_limits")

    @workflow(loop="native")
    async def go() -> str:
        return str(await _outcome(RUNS[how], agent))

    async with open_app() as app:
        run = await app.start(go())
        assert await run.result() == bare
        assert any(step.name == "model" for step in await run.steps())
    assert [_seen(body) for body in provider.stand_in.asked()[len(asked) :]] == [_seen(body) for body in asked]


def _seen(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in ("stream", "stream_options")}


async def _refused(provider: Provider, open_app: OpenApp, run: Run, agent: Agent[Any, Any] | None = None) -> str:
    made = agent or _make(provider)

    @workflow(loop="native")
    async def go() -> str:
        with pytest.raises(UserError) as refused:
            await run(made)
        return str(refused.value)

    async with open_app() as app:
        said = await (await app.start(go())).result()
    assert provider.times == 0
    return said


async def test_functions_that_are_given_to_one_call_are_refused(provider: Provider, open_app: OpenApp) -> None:
    given: FunctionToolset[Any] = FunctionToolset(id="given")

    async def run(agent: Agent[Any, Any]) -> Any:
        return await agent.run("go", toolsets=[given])

    @given.tool_plain
    def extra() -> str:
        raise AssertionError

    assert "cannot be added at runtime with Outlast" in await _refused(provider, open_app, run)


async def test_a_model_that_nobody_knows_again_is_refused(provider: Provider, open_app: OpenApp) -> None:
    other = provider.model()

    async def run(agent: Agent[Any, Any]) -> Any:
        return await agent.run("go", model=other)

    assert "was not registered with `Durable`" in await _refused(provider, open_app, run)


async def test_a_tool_that_cancels_its_agent_in_a_step_is_told_what_to_do(
    provider: Provider, open_app: OpenApp
) -> None:
    agent = Agent(provider.calls(ToolCall("c1", "act", {})), name="agent", capabilities=[Durable()])

    @agent.tool
    async def act(ctx: RunContext[None]) -> str:
        with pytest.raises(UserError, match="not supported inside a durable step"):
            ctx.cancel()
        return "told"

    @workflow(loop="native")
    async def go() -> str:
        return (await agent.run("go")).output

    async with open_app() as app:
        assert await (await app.start(go())).result() == "c1 told"


@pytest.mark.parametrize("error", [UnexpectedModelBehavior, UsageLimitExceeded])
async def test_the_framework_s_errors_end_a_run_as_what_they_are(
    error: type[Exception], provider: Provider, open_app: OpenApp
) -> None:
    provider.script = lambda asked: Reply(calls=(ToolCall(f"c{asked.number}", "act", {"amount": "much"}),))
    agent = _make(provider)
    limits = UsageLimits(request_limit=1 if error is UsageLimitExceeded else 50)

    @workflow(loop="native")
    async def go() -> str:
        return str((await agent.run("go", usage_limits=limits)).output)

    app: App
    async with open_app() as app:
        run = await app.start(go())
        with pytest.raises(error):
            await run.result()
