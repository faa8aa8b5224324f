"""What an agent's code is told after a restart is what it was told before."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from pydantic_ai import Agent, RunContext, UsageLimitExceeded, UsageLimits
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, ModelRateLimitError
from pydantic_ai.models.fallback import FallbackModel

import outlast
from outlast import workflow
from outlast.pydantic_ai import Durable
from tests.adapters.pydantic_ai.provider import Provider
from tests.adapters.stand_in import Asked, Reply, ToolCall
from tests.behaviour.stage import OpenApp, Restart, failed_with, stuck

TWO = (ToolCall("c1", "act", {"amount": 1}), ToolCall("c2", "act", {"amount": 2}))


async def test_a_conversation_is_the_same_with_all_its_times_and_ids(provider: Provider, restart: Restart) -> None:
    agent = Agent(provider.calls(*TWO), name="agent", capabilities=[Durable()])
    kept: list[Any] = []

    @agent.tool_plain
    async def act(amount: int) -> str:
        return f"did {amount}"

    @workflow(loop="native")
    async def go() -> list[Any]:
        first = await agent.run("one")
        second = await agent.run("two", message_history=first.all_messages())
        kept.append(json.loads(second.all_messages_json()))
        await restart.point()
        return kept

    before, after = await restart.result(go())
    assert len(before) > 5
    assert before == after
    assert provider.times == 3


async def test_messages_can_be_the_arguments_of_a_step(provider: Provider, restart: Restart) -> None:
    agent = Agent(provider.model(), name="agent", capabilities=[Durable()])
    saved: list[str] = []

    @outlast.step
    async def save(messages: str) -> None:
        saved.append(messages)

    @workflow(loop="native")
    async def go() -> str:
        result = await agent.run("one")
        await save(result.all_messages_json().decode())
        await restart.point()
        return result.output

    assert await restart.result(go()) == "you said one"
    assert len(saved) == 1


async def test_agents_side_by_side_are_told_their_own(provider: Provider, restart: Restart) -> None:
    agent = Agent(provider.model(), name="agent", capabilities=[Durable()])

    @workflow(loop="native")
    async def go() -> list[str]:
        results = await asyncio.gather(*(agent.run(f"number {n}") for n in range(8)))
        await restart.point()
        return [result.output for result in results]

    assert await restart.result(go()) == [f"you said number {n}" for n in range(8)]
    assert provider.times == 8


async def test_sub_agents_in_parallel_calls_are_told_their_own_whichever_is_first(
    provider: Provider, restart: Restart
) -> None:
    passes: list[int] = []
    main = provider.calls(*TWO)
    scripted = provider.script
    provider.script = lambda asked: scripted(asked) if asked.said(0) == "go" else Reply(f"sub {asked.said(0)}")
    sub = Agent(provider.model(), name="sub", capabilities=[Durable()])
    agent = Agent(main, name="agent", capabilities=[Durable()])

    @agent.tool(metadata={"outlast": False})
    async def act(ctx: RunContext[None], amount: int) -> str:
        if amount == len(passes):  # the other one is first in the second pass
            await asyncio.sleep(0.05)
        return (await sub.run(f"for {amount}", usage=ctx.usage)).output

    @workflow(loop="native")
    async def go() -> list[Any]:
        passes.append(1)
        result = await agent.run("go")
        await restart.point()
        return [result.output, result.usage.requests]

    assert await restart.result(go()) == ["c1 sub for 1; c2 sub for 2", 4]
    assert provider.times == 4


async def test_a_changed_prompt_is_found_out(provider: Provider, restart: Restart, open_app: OpenApp) -> None:
    agent = Agent(provider.model(), name="agent", capabilities=[Durable()])
    passes: list[int] = []

    @workflow(loop="native")
    async def go() -> str:
        passes.append(1)
        result = await agent.run(f"pass {len(passes)}")
        await restart.point()
        return result.output

    run_id = await restart.run(go())
    async with open_app() as app:
        info = await stuck(await app.get(run_id))
    assert "pass 1" in info.detail
    assert "pass 2" in info.detail


async def test_limits_of_usage_hold_across_a_restart(provider: Provider, restart: Restart) -> None:
    """Each turn asks for one more call, so that the run would go on without end."""
    provider.script = lambda asked: Reply(calls=(ToolCall(f"c{len(asked.results())}", "act", {"amount": 1}),))
    agent = Agent(provider.model(), name="agent", capabilities=[Durable()])

    @agent.tool(metadata={"outlast": False})
    async def act(ctx: RunContext[None], amount: int) -> str:
        if ctx.run_step == 3:
            await restart.point()
        return "on"

    @workflow(loop="native")
    async def go() -> str:
        try:
            await agent.run("go", usage_limits=UsageLimits(request_limit=5))
        except UsageLimitExceeded as error:
            return str(error)
        return "no limit"

    assert "request_limit of 5" in await restart.result(go())
    assert provider.times == 5


async def test_a_budget_of_the_run_stops_its_agent(provider: Provider, restart: Restart, open_app: OpenApp) -> None:
    provider.script = lambda asked: Reply(calls=(ToolCall(f"c{len(asked.results())}", "act", {"amount": 1}),))
    agent = Agent(provider.model(), name="agent", capabilities=[Durable()])

    @agent.tool(metadata={"outlast": False})
    async def act(ctx: RunContext[None], amount: int) -> str:
        if ctx.run_step == 2:
            await restart.point()
        return "on"

    @workflow(loop="native", max_tokens=40)
    async def go() -> str:
        return (await agent.run("go")).output

    run_id = await restart.run(go())
    async with open_app() as app:
        run = await app.get(run_id)
        await failed_with(run, outlast.BudgetExceeded)
        assert (await run.usage()).spent.total == 45
    assert provider.times == 3  # of 15 tokens each


async def test_errors_of_a_model_are_recorded_and_come_as_they_are(provider: Provider, restart: Restart) -> None:
    provider.script = lambda asked: Reply("too much", status=429)
    agent = Agent(provider.model(), name="agent", capabilities=[Durable()])

    @workflow(loop="native")
    async def go() -> list[Any]:
        try:
            await agent.run("go")
        except ModelHTTPError as error:
            await restart.point()
            return [error.status_code, error.model_name, str(error), isinstance(error, ModelRateLimitError)]
        return []

    status, model, text, is_limit = await restart.result(go())
    assert (status, model, is_limit) == (429, "stand-in", True)
    assert "too much" in text
    assert provider.times == 1


async def test_a_model_to_fall_back_on_is_asked_in_the_same_step(provider: Provider, open_app: OpenApp) -> None:
    def says(asked: Asked) -> Reply:
        return Reply("down", status=503) if asked.number == 0 else Reply("here I am")

    provider.script = says
    agent = Agent(FallbackModel(provider.model(), provider.model()), name="agent", capabilities=[Durable()])

    @workflow(loop="native")
    async def go() -> str:
        return (await agent.run("go")).output

    async with open_app() as app:
        assert await (await app.start(go())).result() == "here I am"
    assert provider.times == 2


async def test_a_failed_request_is_tried_again_as_the_agent_says(provider: Provider, open_app: OpenApp) -> None:
    provider.script = lambda asked: Reply("down", status=503) if asked.number < 2 else Reply("here I am")
    retry = outlast.Retry(attempts=3, initial=0.001)
    agent = Agent(provider.model(), name="agent", capabilities=[Durable(model={"retry": retry})])

    @workflow(loop="native")
    async def go() -> str:
        return (await agent.run("go")).output

    async with open_app() as app:
        assert await (await app.start(go())).result() == "here I am"
    assert provider.times == 3


async def test_a_fork_is_told_what_its_original_was_and_leaves_that_alone(
    provider: Provider, open_app: OpenApp
) -> None:
    agent = Agent(provider.calls(*TWO), name="agent", capabilities=[Durable()])
    done: list[int] = []

    @agent.tool_plain
    async def act(amount: int) -> str:
        done.append(amount)
        return f"did {amount}"

    @workflow(loop="native")
    async def go() -> str:
        return (await agent.run("go")).output

    async with open_app() as app:
        run = await app.start(go())
        said, journal = await run.result(), [step.id for step in await run.steps()]
        for _ in range(2):
            fork = await app.fork(run.id, "main.[agent]/model#2")
            assert await fork.result() == said
            assert [step.id for step in await fork.steps()] == journal
        assert [step.id for step in await run.steps()] == journal
        assert await run.result() == said
    assert sorted(done) == [1, 2]
    assert provider.times == 4  # two, and the last one of each fork


@pytest.mark.parametrize("loop", ["native", None])
async def test_an_agent_with_functions_for_tools_runs_in_either_kind_of_workflow(
    loop: Any, provider: Provider, restart: Restart
) -> None:
    agent = Agent(provider.calls(*TWO), name="agent", capabilities=[Durable()])
    done: list[int] = []

    @agent.tool_plain
    async def act(amount: int) -> str:
        done.append(amount)
        return f"did {amount}"

    async def go() -> str:
        result = await agent.run("go")
        await restart.point()
        return result.output

    made = workflow(go) if loop is None else workflow(loop=loop)(go)
    assert await restart.result(made()) == "c1 did 1; c2 did 2"
    assert sorted(done) == [1, 2]
    assert provider.times == 2


async def test_an_agent_without_a_name_is_refused(provider: Provider) -> None:
    with pytest.raises(Exception, match="unique `name`"):
        Agent(provider.model(), capabilities=[Durable()])


async def test_a_failed_agent_fails_its_run_and_is_taken_up_again(provider: Provider, open_app: OpenApp) -> None:
    provider.script = lambda asked: Reply("down", status=503) if asked.number == 0 else Reply("here I am")
    agent = Agent(provider.model(), name="agent", capabilities=[Durable()])

    @workflow(loop="native")
    async def go() -> str:
        return (await agent.run("go")).output

    async with open_app() as app:
        run = await app.start(go())
        await failed_with(run, ModelAPIError)
        await app.resume(run.id)
        assert await run.result() == "here I am"
