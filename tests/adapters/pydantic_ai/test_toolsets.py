"""Tools that come from elsewhere: of MCP servers, and of functions that choose them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from fastmcp import Context, FastMCP
from mcp.types import ToolAnnotations
from pydantic_ai import Agent, FunctionToolset, RunContext
from pydantic_ai.exceptions import UserError
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.toolsets import AbstractToolset, DynamicToolset

import outlast
from outlast import workflow
from outlast.pydantic_ai import Durable
from tests.adapters.pydantic_ai.provider import Provider
from tests.adapters.stand_in import ToolCall
from tests.behaviour.stage import OpenApp, Restart

CALLS = tuple(ToolCall(name, name, {"n": 1}) for name in ("reads", "adds", "repeats", "silent"))


def _server(did: Counter[str]) -> FastMCP[Any]:
    server: FastMCP[Any] = FastMCP("server", instructions="Count well.")
    hints = {
        "reads": ToolAnnotations(readOnlyHint=True),
        "adds": ToolAnnotations(idempotentHint=False),
        "repeats": ToolAnnotations(idempotentHint=True),
        "silent": None,
    }

    def add(name: str) -> None:
        @server.tool(name=name, annotations=hints[name])
        def act(n: int) -> str:
            did[name] += n
            return f"{name} {did[name]}"

    for name in hints:
        add(name)
    return server


async def test_tools_of_an_mcp_server_are_steps_with_the_effects_that_it_says(
    provider: Provider, restart: Restart, open_app: OpenApp
) -> None:
    did: Counter[str] = Counter()
    toolset = MCPToolset(_server(did), id="counter", include_instructions=True)
    agent = Agent(provider.calls(*CALLS), name="agent", toolsets=[toolset], capabilities=[Durable()])

    @workflow(loop="native")
    async def go() -> str:
        output = (await agent.run("go")).output
        await restart.point()
        return output

    run_id = await restart.run(go())
    async with open_app() as app:
        run = await app.get(run_id)
        assert await run.result() == "adds adds 1; reads reads 1; repeats repeats 1; silent silent 1"
        effects = {step.name: step.effect for step in await run.steps()}
    assert did == dict.fromkeys(("reads", "adds", "repeats", "silent"), 1)
    assert [effects[name] for name in ("reads", "adds", "repeats", "silent")] == [
        "pure",
        "once",
        "idempotent",
        "idempotent",
    ]
    assert provider.times == 2
    assert "Count well." in str(provider.saw[0])


async def test_a_tool_of_an_mcp_server_can_send_its_key_along(provider: Provider, open_app: OpenApp) -> None:
    server, keys = FastMCP[Any]("server"), list[Any]()

    @server.tool
    def silent(n: int, context: Context) -> str:
        assert context.request_context is not None
        keys.append(context.request_context.meta)
        return "silent 1"

    async def with_key(ctx: RunContext[Any], call_tool: Any, name: str, args: dict[str, Any]) -> Any:
        return await call_tool(name, args, metadata={"idempotency_key": outlast.idempotency_key()})

    toolset = MCPToolset(server, id="counter", process_tool_call=with_key)
    agent = Agent(provider.calls(CALLS[3]), name="agent", toolsets=[toolset], capabilities=[Durable()])

    @workflow(loop="native")
    async def go() -> str:
        return (await agent.run("go")).output

    async with open_app() as app:
        run = await app.start(go())
        assert await run.result() == "silent silent 1"  # the call's id, and what the tool said
        (step,) = [step for step in await run.steps() if step.name == "silent"]
    assert [len(str(dict(key)["idempotency_key"])) for key in keys] == [32]
    assert step.effect == "idempotent"


async def test_tools_that_a_function_chooses_are_steps(provider: Provider, restart: Restart) -> None:
    did: Counter[str] = Counter()

    def choose(ctx: RunContext[Any]) -> AbstractToolset[Any]:
        chosen: FunctionToolset[Any] = FunctionToolset(id="inner")

        @chosen.tool_plain
        def silent(n: int) -> str:
            did["silent"] += n
            return outlast.idempotency_key()

        return chosen

    toolset = DynamicToolset(choose, id="chosen")
    agent = Agent(provider.calls(CALLS[3]), name="agent", toolsets=[toolset], capabilities=[Durable()])

    @workflow(loop="native")
    async def go() -> str:
        output = (await agent.run("go")).output
        await restart.point()
        return output

    assert len(await restart.result(go())) == len("silent ") + 32
    assert did == {"silent": 1}
    assert provider.times == 2


async def test_a_tool_of_a_server_cannot_run_in_the_body(provider: Provider, open_app: OpenApp) -> None:
    toolset = MCPToolset(_server(Counter()), id="counter")
    agent = Agent(
        provider.calls(CALLS[3]), name="agent", toolsets=[toolset], capabilities=[Durable(effects={"silent": False})]
    )

    @workflow(loop="native")
    async def go() -> str:
        return (await agent.run("go")).output

    async with open_app() as app:
        run = await app.start(go())
        with pytest.raises(outlast.WrongUse, match="silent"):
            await run.result()


def test_a_toolset_without_an_id_is_refused(provider: Provider) -> None:
    toolset: FunctionToolset[Any] = FunctionToolset()
    with pytest.raises(UserError, match="unique `id`"):
        Agent(provider.model(), name="agent", toolsets=[toolset], capabilities=[Durable()])
