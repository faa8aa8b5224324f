"""Approvals and events from outside: a tool acts once where people allow it, and never where nobody has."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, RunContext, ToolDenied
from pydantic_ai.capabilities import RequestInput
from pydantic_ai.messages import ModelMessagesTypeAdapter
from pydantic_ai.tools import ToolApproved

import outlast
from outlast import AlreadyAnswered, App, WrongUse, workflow
from outlast.pydantic_ai import Durable, fail_event, resolve_event
from tests.adapters.pydantic_ai.provider import Provider
from tests.adapters.stand_in import ToolCall
from tests.behaviour.stage import OpenApp, Restart, eventually

THREE = tuple(ToolCall(f"p{n}", "pay", {"cents": n}) for n in (1, 2, 3))


async def _questions(app: App, count: int) -> list[Any]:
    asked: list[Any] = []

    async def there() -> bool:
        asked[:] = await app.approvals()
        return len(asked) == count

    await eventually(there)
    return asked


def _payer(provider: Provider, *calls: ToolCall, **durable: Any) -> tuple[Agent[None, Any], list[int]]:
    agent = Agent(
        provider.calls(*calls),
        name="payer",
        output_type=[str, DeferredToolRequests],
        capabilities=[Durable(**durable)],
    )
    paid: list[int] = []

    @agent.tool_plain(requires_approval=True)
    @outlast.effect("once")
    async def pay(cents: int) -> str:
        paid.append(cents)
        return f"paid {cents}"

    return agent, paid


async def test_each_answer_reaches_its_own_call(provider: Provider, open_app: OpenApp) -> None:
    agent, paid = _payer(provider, *THREE, approvals="desk")

    @workflow(loop="native")
    async def go() -> str:
        return (await agent.run("go")).output

    async with open_app() as app:
        run = await app.start(go())
        asked = await _questions(app, 3)
        assert {info.to for info in asked} == {"desk"}
        assert {info.question for info in asked} == {f'pay({{"cents": {n}}})?' for n in (1, 2, 3)}
        for info in reversed(asked):
            if info.data["args"] == {"cents": 2}:
                await app.reject(info.id, by="ada", note="too much")
            else:
                await app.approve(info.id, by="ada")
        assert await run.result() == "p1 paid 1; p2 too much; p3 paid 3"
    assert sorted(paid) == [1, 3]


async def test_an_answer_counts_once_whoever_else_answers(provider: Provider, open_app: OpenApp) -> None:
    agent, paid = _payer(provider, THREE[0], approvals=True)

    @workflow(loop="native")
    async def go() -> str:
        return (await agent.run("go")).output

    async with open_app() as app:
        run = await app.start(go())
        (asked,) = await _questions(app, 1)
        async with open_app(worker=False) as one, open_app(worker=False) as other:
            answers = [client.approve(asked.id, by=str(n)) for n, client in enumerate([one, other] * 4)]
            outcomes = await asyncio.gather(*answers, return_exceptions=True)
        assert sum(isinstance(outcome, AlreadyAnswered) for outcome in outcomes) == 7
        assert await run.result() == "p1 paid 1"
    assert paid == [1]


async def test_without_approvals_the_workflow_asks_and_runs_the_agent_again(
    provider: Provider, restart: Restart
) -> None:
    agent, paid = _payer(provider, *THREE)

    @workflow(loop="native")
    async def go() -> str:
        result = await agent.run("go")
        assert isinstance(result.output, DeferredToolRequests)
        assert paid == []
        await restart.point()
        results = {call.tool_call_id: call.args_as_dict()["cents"] != 2 for call in result.output.approvals}
        second = await agent.run(
            message_history=result.all_messages(), deferred_tool_results=DeferredToolResults(approvals=results)
        )
        return second.output

    assert await restart.result(go()) == "p1 paid 1; p2 The tool call was denied.; p3 paid 3"
    assert sorted(paid) == [1, 3]


async def test_a_call_in_a_history_is_not_taken_for_approved(provider: Provider, open_app: OpenApp) -> None:
    agent, paid = _payer(provider, THREE[0])

    @workflow(loop="native")
    async def go() -> list[str]:
        first = await agent.run("go")
        history = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(first.all_messages()))
        said = []
        for results in (None, DeferredToolResults(), DeferredToolResults(approvals={"p9": ToolApproved()})):
            try:
                again = await agent.run(message_history=history, deferred_tool_results=results)
            except Exception as error:  # noqa: BLE001 - refused in one way or another
                said.append(type(error).__name__)
            else:
                said.append(type(again.output).__name__)
        return said

    async with open_app() as app:
        said = await (await app.start(go())).result()
    assert said == ["DeferredToolRequests", "UserError", "UserError"]
    assert paid == []


async def test_an_approval_survives_a_restart_of_the_process_that_asked(provider: Provider, open_app: OpenApp) -> None:
    agent, paid = _payer(provider, THREE[0], approvals=True)

    @workflow(loop="native")
    async def go() -> str:
        return (await agent.run("go")).output

    async with open_app() as app:
        run = await app.start(go(), id="pays")
        await _questions(app, 1)
    async with open_app(worker=False) as client:
        (asked,) = await client.approvals()
        await client.approve(asked.id, by="ada")
    async with open_app() as app:
        run = await app.get("pays")
        assert await run.result() == "p1 paid 1"
    assert paid == [1]
    assert provider.times == 2


def _input(provider: Provider, tokens: list[str], **request: Any) -> tuple[Agent[None, Any], list[int]]:
    async def ask(ctx: RunContext[None], requests: DeferredToolRequests, token: str) -> DeferredToolResults | None:
        tokens.append(token)
        return None

    agent = Agent(provider.calls(THREE[0]), name="payer", capabilities=[RequestInput(ask=ask, **request), Durable()])
    paid: list[int] = []

    @agent.tool_plain(requires_approval=True)
    async def pay(cents: int) -> str:
        paid.append(cents)
        return f"paid {cents}"

    return agent, paid


async def test_an_event_from_outside_is_waited_for_in_the_run(provider: Provider, open_app: OpenApp) -> None:
    tokens: list[str] = []
    agent, paid = _input(provider, tokens)

    @workflow(loop="native")
    async def go() -> str:
        return (await agent.run("go")).output

    async with open_app() as app:
        await app.start(go(), id="pays")
        await eventually(lambda: bool(tokens))
    async with open_app(worker=False) as one, open_app(worker=False) as other:
        yes = {"approvals": {"p1": {"kind": "tool-approved"}}}
        no = {"approvals": {"p1": {"kind": "tool-denied", "message": "no"}}}
        await resolve_event(one, tokens[0], yes)
        await asyncio.gather(*(resolve_event(client, tokens[0], no) for client in (one, other, one)))
    async with open_app() as app:
        assert await (await app.get("pays")).result() == "p1 paid 1"
    assert paid == [1]
    assert len(tokens) == 1


@pytest.mark.parametrize("how", ["fails", "late"])
async def test_an_event_that_does_not_come_is_told_to_the_model(
    how: str, provider: Provider, open_app: OpenApp
) -> None:
    tokens: list[str] = []
    agent, paid = _input(provider, tokens, timeout=dt.timedelta(seconds=0.05) if how == "late" else None)

    @workflow(loop="native")
    async def go() -> str:
        return (await agent.run("go")).output

    async with open_app() as app:
        run = await app.start(go())
        await eventually(lambda: bool(tokens))
        if how == "fails":
            await fail_event(app, tokens[0], "nobody is in")
        said = await run.result()
    assert "No decision on this tool call arrived" in said
    assert ("nobody is in" in said) == (how == "fails")
    assert paid == []


async def test_what_is_no_token_is_refused(open_app: OpenApp) -> None:
    async with open_app() as app:
        with pytest.raises(WrongUse, match="no token of an external event"):
            await resolve_event(app, "nonsense", 1)
        with pytest.raises(outlast.RunNotFound):
            await resolve_event(app, "nobody:event-1", 1)


async def test_a_denial_without_a_word_has_the_framework_s_own(provider: Provider, open_app: OpenApp) -> None:
    agent, paid = _payer(provider, THREE[0], approvals=True)

    @workflow(loop="native")
    async def go() -> str:
        return (await agent.run("go")).output

    async with open_app() as app:
        run = await app.start(go())
        (asked,) = await _questions(app, 1)
        await app.reject(asked.id, by="ada")
        assert await run.result() == f"p1 {ToolDenied().message}"
    assert paid == []
