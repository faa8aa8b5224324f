"""What tools say of their effects holds, and what they say to the framework is an outcome."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, ApprovalRequired, CallDeferred, DeferredToolRequests, ModelRetry, RunContext
from pydantic_ai.exceptions import ToolFailed

import outlast
from outlast import Retry, Run, WrongUse, workflow
from outlast.pydantic_ai import Durable
from tests.adapters.pydantic_ai.provider import Provider
from tests.adapters.stand_in import Reply, ToolCall
from tests.behaviour.stage import OpenApp, Restart, failed_with, failure, stuck

CALL = ToolCall("c1", "act", {"amount": 5})


async def _effects(run: Run[Any]) -> dict[str, str]:
    return {step.name: step.effect for step in await run.steps()}


@pytest.mark.parametrize("way", ["nothing", "mark", "metadata", "mapping", "dict"])
async def test_a_tool_has_the_effect_that_is_said(way: str, provider: Provider, open_app: OpenApp) -> None:
    effects: dict[str, Any] = {"mapping": {"act": "once"}, "dict": {"act": {"effect": "once", "timeout": 5}}}.get(
        way, {}
    )
    agent = Agent(provider.calls(CALL), name="agent", capabilities=[Durable(effects=effects)])

    async def act(amount: int) -> str:
        return outlast.idempotency_key()

    if way == "mark":
        outlast.effect("once")(act)
    agent.tool_plain(metadata={"outlast": "once"} if way == "metadata" else None)(act)

    @workflow(loop="native")
    async def go() -> str:
        return (await agent.run("go")).output

    async with open_app() as app:
        run = await app.start(go())
        key = (await run.result()).removeprefix("c1 ")
        assert len(key) == 32
        assert (await _effects(run))["act"] == ("idempotent" if way == "nothing" else "once")


@pytest.mark.parametrize("said", ["twice", 3, {"effect": "once", "nonsense": 1}])
def test_what_is_no_effect_is_refused_when_it_is_said(said: Any) -> None:
    with pytest.raises(WrongUse, match=r"effects=\{'act': ...\}"):
        Durable(effects={"act": said})


async def test_a_tool_that_must_not_repeat_cannot_have_a_timeout_that_asks_for_a_repetition(
    provider: Provider, open_app: OpenApp
) -> None:
    agent = Agent(provider.calls(CALL), name="agent", capabilities=[Durable()])

    @agent.tool_plain(timeout=1)
    @outlast.effect("once")
    async def act(amount: int) -> str:
        raise AssertionError

    @workflow(loop="native")
    async def go() -> str:
        return (await agent.run("go")).output

    async with open_app() as app:
        await failed_with(await app.start(go()), WrongUse)


@pytest.mark.parametrize("how", [ModelRetry("again"), ToolFailed("no"), ApprovalRequired(), CallDeferred()])
async def test_what_a_tool_says_to_the_framework_is_recorded_once_and_never_retried(
    how: Exception, provider: Provider, restart: Restart
) -> None:
    agent = Agent(provider.calls(CALL), name="agent", capabilities=[Durable()], output_type=[str, DeferredToolRequests])
    called: list[int] = []

    @agent.tool_plain
    @outlast.effect("idempotent", retry=Retry(attempts=5, initial=0.001))
    async def act(amount: int) -> str:
        called.append(amount)
        raise how

    @workflow(loop="native")
    async def go() -> str:
        output = (await agent.run("go")).output
        await restart.point()
        return output if isinstance(output, str) else "deferred"

    said = await restart.result(go())
    assert called == [5]
    assert said == "deferred" if isinstance(how, ApprovalRequired | CallDeferred) else said.startswith("c1 ")


async def test_another_error_of_a_tool_is_tried_again_as_its_mark_says(provider: Provider, open_app: OpenApp) -> None:
    agent = Agent(provider.calls(CALL), name="agent", capabilities=[Durable()])
    called: list[str] = []

    @agent.tool_plain
    @outlast.effect("idempotent", retry=Retry(attempts=3, initial=0.001))
    async def act(amount: int) -> str:
        called.append(outlast.idempotency_key())
        if len(called) < 3:
            raise ConnectionError("not yet")
        return "done"

    @workflow(loop="native")
    async def go() -> str:
        return (await agent.run("go")).output

    async with open_app() as app:
        assert await (await app.start(go())).result() == "c1 done"
    assert len(called) == 3
    assert len(set(called)) == 1


async def test_an_error_of_a_tool_that_must_not_repeat_leaves_it_in_doubt_and_a_person_decides(
    provider: Provider, open_app: OpenApp
) -> None:
    agent = Agent(provider.calls(CALL), name="agent", capabilities=[Durable()])

    @agent.tool_plain
    @outlast.effect("once", settle=0)
    async def act(amount: int) -> str:
        raise ConnectionError("the line is dead")

    @workflow(loop="native")
    async def go() -> str:
        return (await agent.run("go")).output

    async with open_app() as app:
        run = await app.start(go())
        await stuck(run)
        (doubtful,) = [step for step in await run.steps() if step.name == "act"]
        await app.resolve(run.id, doubtful.id, outlast.Happened("acted, as the books say"))
        assert await run.result() == "c1 acted, as the books say"


class Order(BaseModel):
    """What a tool takes as one argument."""

    item: str
    count: int


async def test_a_confirm_is_asked_with_the_arguments_that_the_model_gave(provider: Provider, open_app: OpenApp) -> None:
    asked: list[Any] = []

    async def find(key: str, order: Any, note: str) -> outlast.Happened:
        asked.append((order, note))
        return outlast.Happened({"found": key})

    call = ToolCall("c1", "act", {"order": {"item": "tea", "count": 2}, "note": "soon"})
    agent = Agent(provider.calls(call), name="agent", capabilities=[Durable()])

    @agent.tool
    @outlast.effect("once", confirm=find)
    async def act(ctx: RunContext[None], order: Order, note: str) -> str:
        assert order == Order(item="tea", count=2)
        raise ConnectionError("the line is dead")

    @workflow(loop="native")
    async def go() -> str:
        return (await agent.run("go")).output

    async with open_app() as app:
        assert "found" in await (await app.start(go())).result()
    assert asked == [({"item": "tea", "count": 2}, "soon")]


async def test_what_cannot_be_stored_fails_the_call_once(provider: Provider, open_app: OpenApp) -> None:
    agent = Agent(provider.calls(CALL), name="agent", capabilities=[Durable()])
    called: list[int] = []

    @agent.tool_plain
    @outlast.effect("idempotent", retry=Retry(attempts=1))
    async def act(amount: int) -> Any:
        called.append(amount)
        return {"lock": asyncio.Lock()}

    @workflow(loop="native")
    async def go() -> str:
        return (await agent.run("go")).output

    async with open_app() as app:
        assert "Lock" in str(await failure(await app.start(go())))
    assert called == [5]


async def test_an_agent_in_the_step_of_a_tool_without_a_mark_is_refused(provider: Provider, open_app: OpenApp) -> None:
    sub = Agent(provider.model(), name="sub", capabilities=[Durable()])
    agent = Agent(provider.calls(CALL), name="agent", capabilities=[Durable()])

    @agent.tool_plain
    async def act(amount: int) -> str:
        return (await sub.run("go")).output

    @workflow(loop="native")
    async def go() -> str:
        return (await agent.run("go")).output

    async with open_app() as app:
        error = await failed_with(await app.start(go()), WrongUse)
    assert "metadata={'outlast': False}" in str(error)
    assert provider.times == 1


async def test_an_agent_in_a_marked_tool_is_one_step_and_its_usage_counts_after_a_restart(
    provider: Provider, restart: Restart, open_app: OpenApp
) -> None:
    main, called = provider.calls(CALL), []
    sub = Agent(provider.model(), name="sub", capabilities=[Durable()])
    agent = Agent(main, name="agent", capabilities=[Durable()])

    @agent.tool
    @outlast.effect("idempotent")
    async def act(ctx: RunContext[None], amount: int) -> str:
        called.append(amount)
        scripted, provider.script = provider.script, lambda _: Reply("from the sub-agent", input_tokens=100)
        try:
            return (await sub.run("go", usage=ctx.usage)).output
        finally:
            provider.script = scripted

    usages: list[tuple[int, int]] = []

    @workflow(loop="native")
    async def go() -> list[int]:
        usage = (await agent.run("go")).usage
        usages.append((usage.requests, usage.input_tokens))
        await restart.point()
        return [usage.requests, usage.input_tokens]

    run_id = await restart.run(go())
    async with open_app() as app:
        run = await app.get(run_id)
        assert await run.result() == [3, 120]
        used = await run.usage()
    assert used.spent.total == 135
    assert usages == [(3, 120), (3, 120)]
    assert called == [5]


async def test_the_context_of_the_caller_reaches_a_tool_in_its_step(provider: Provider, open_app: OpenApp) -> None:
    tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant")
    agent = Agent(provider.calls(CALL), name="agent", capabilities=[Durable()])

    @agent.tool_plain
    def act(amount: int) -> str:
        return tenant.get()

    @workflow(loop="native")
    async def go() -> str:
        tenant.set("acme")
        return (await agent.run("go")).output

    async with open_app() as app:
        assert await (await app.start(go())).result() == "c1 acme"


async def test_outside_of_a_workflow_the_agent_is_what_it_was(provider: Provider, open_app: OpenApp) -> None:
    agent = Agent(provider.calls(CALL), name="agent", capabilities=[Durable(tokens="tokens", approvals=True)])

    @agent.tool_plain
    @outlast.effect("once")
    async def act(amount: int) -> str:
        return "acted"

    assert (await agent.run("go")).output == "c1 acted"
    async with open_app():
        assert (await agent.run("go")).output == "c1 acted"
    assert all(not body.get("stream") for body in provider.stand_in.asked())
