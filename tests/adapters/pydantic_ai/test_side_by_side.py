"""Runs of one agent side by side get their own answers, or are refused; threads run agents, too."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import Any

import pytest
from pydantic_ai import Agent, RunContext

import outlast
from outlast import WrongUse, workflow
from outlast.pydantic_ai import Durable
from tests.adapters.pydantic_ai.provider import Provider
from tests.adapters.stand_in import ToolCall
from tests.behaviour.stage import OpenApp, Restart

REFUSED = r"another run of it with the same prompt was under way in the same scope \(main\).*differs in {} alone"


def balances(provider: Provider) -> Agent[str, str]:
    """Return an agent that tells the balance of its deps."""
    agent = Agent(provider.calls(ToolCall("c1", "balance", {})), name="agent", deps_type=str, capabilities=[Durable()])

    @agent.tool
    async def balance(ctx: RunContext[str]) -> str:
        return f"what {ctx.deps} has"

    return agent


async def test_two_at_once_with_one_prompt_and_other_deps_are_refused(provider: Provider, open_app: OpenApp) -> None:
    agent = balances(provider)

    @workflow(loop="native")
    async def go() -> None:
        await asyncio.gather(*(agent.run("How much?", deps=who) for who in ("ann", "bob")))

    async with open_app() as app:
        with pytest.raises(WrongUse, match=REFUSED.format("deps")):
            await (await app.start(go())).result()


async def test_two_at_once_with_one_prompt_and_other_histories_are_refused(
    provider: Provider, open_app: OpenApp
) -> None:
    agent = Agent(provider.model(), name="agent", capabilities=[Durable()])

    @workflow(loop="native")
    async def go() -> None:
        histories = [(await agent.run(what)).all_messages() for what in ("one", "two")]
        await asyncio.gather(*(agent.run("more", message_history=history) for history in histories))

    async with open_app() as app:
        with pytest.raises(WrongUse, match=REFUSED.format("message_history")):
            await (await app.start(go())).result()


async def test_in_scopes_of_their_own_they_keep_their_answers_whichever_is_first(
    provider: Provider, restart: Restart
) -> None:
    agent = balances(provider)
    passes: list[int] = []

    @workflow(loop="native")
    async def go() -> dict[str, str]:
        passes.append(1)

        async def ask(who: str) -> str:
            with outlast.scope(who):
                return (await agent.run("How much?", deps=who)).output

        names = ["ann", "bob"] if len(passes) == 1 else ["bob", "ann"]
        answers = dict(zip(names, await asyncio.gather(*map(ask, names)), strict=True))
        await restart.point()
        return answers

    assert await restart.result(go()) == {"ann": "c1 what ann has", "bob": "c1 what bob has"}
    assert provider.times == 4


async def test_those_that_are_alike_and_those_in_turn_are_not_refused(provider: Provider, open_app: OpenApp) -> None:
    agent = balances(provider)

    @workflow(loop="native")
    async def go() -> list[str]:
        alike = await asyncio.gather(*(agent.run("How much?", deps="ann") for _ in range(3)))
        in_turn = [await agent.run("How much?", deps=who) for who in ("ann", "bob")]
        return [result.output for result in (*alike, *in_turn)]

    async with open_app() as app:
        assert await (await app.start(go())).result() == ["c1 what ann has"] * 4 + ["c1 what bob has"]


@pytest.mark.parametrize("tokens", [None, "tokens"])
async def test_an_agent_can_be_run_in_a_thread(tokens: str | None, provider: Provider, restart: Restart) -> None:
    agent = Agent(provider.model(), name="agent", capabilities=[Durable(tokens=tokens)])
    passes: list[Any] = []

    def in_thread() -> Any:
        with closing(asyncio.new_event_loop()) as loop:  # run_sync makes one where there is none, and leaves it open
            asyncio.set_event_loop(loop)
            return agent.run_sync("hello")

    @workflow(loop="native")
    async def go() -> list[str]:
        result = await asyncio.to_thread(in_thread)
        passes.append([message.timestamp for message in result.all_messages()])
        await restart.point()
        return [result.output, (await agent.run("again", message_history=result.all_messages())).output]

    first, _ = await restart.result(go())
    assert first == "you said hello"
    assert passes[0] == passes[1]
    assert provider.times == 2
