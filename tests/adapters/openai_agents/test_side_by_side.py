"""Runs of one agent with one input: told apart by their order in one task, and by scopes in several."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Model, RunContextWrapper, Runner, function_tool

import outlast
from outlast import WrongUse
from tests.adapters.openai_agents.scenes import again, asked, durably, streamed
from tests.adapters.openai_agents.test_tools import calls

ASK = "How much do I have?"

Run = Callable[[Agent[Any], str], Awaitable[str]]


@function_tool
async def balance(ctx: RunContextWrapper[str]) -> str:
    """Tell what somebody has."""
    return f"{ctx.context} is rich"


def clerk(model: Model) -> Agent[Any]:
    """Return an agent that says what its tool says."""
    return Agent("clerk", model=model, tools=[balance])


async def whole(agent: Agent[Any], name: str) -> str:
    """Run the agent for somebody."""
    return str((await Runner.run(agent, ASK, context=name)).final_output)


async def in_pieces(agent: Agent[Any], name: str) -> str:
    """Run the agent for somebody, streamed."""
    return str((await streamed(agent, ASK, context=name))[0].final_output)


async def both(one: Callable[[str], Awaitable[str]], order: list[str], at_once: bool) -> list[str]:
    """Do it for two people in tasks side by side, which come to it in this order; return what Ann got, and Bob."""
    turns = {name: asyncio.Event() for name in order}
    turns[order[0]].set()

    async def task(name: str) -> str:
        await turns[name].wait()
        if at_once:
            turns[order[1]].set()
        said = await one(name)
        turns[order[1]].set()
        return said

    async with asyncio.TaskGroup() as group:
        tasks = {name: group.create_task(task(name)) for name in ("ann", "bob")}
    return [tasks["ann"].result(), tasks["bob"].result()]


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "in some order"])
@pytest.mark.parametrize("run", [whole, in_pieces])
def test_two_runs_alike_in_tasks_side_by_side_are_refused(run: Run, at_once: bool, tmp_path: Path) -> None:
    async def main() -> None:
        async with asked(calls(("balance", {})), tmp_path) as (model, _):
            agent = clerk(model)
            with pytest.raises(ExceptionGroup) as refused:
                await durably(lambda: both(lambda name: run(agent, name), ["ann", "bob"], at_once), tmp_path)
            assert refused.group_contains(WrongUse, match=r"run scene: the agent clerk runs twice.*outlast\.scope")

    asyncio.run(main())


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "in some order"])
@pytest.mark.parametrize("run", [whole, in_pieces])
def test_in_scopes_each_has_its_own_answer_in_whatever_order_they_come(run: Run, at_once: bool, tmp_path: Path) -> None:
    async def main() -> None:
        async with asked(calls(("balance", {})), tmp_path) as (model, stand_in):
            agent = clerk(model)

            async def one(name: str) -> str:
                with outlast.scope(name):
                    return await run(agent, name)

            async def first() -> None:
                await both(one, ["ann", "bob"], at_once)
                raise ConnectionError

            with pytest.raises(ConnectionError):
                await durably(first, tmp_path)
            before = len(stand_in.asked())
            answers = await again(tmp_path, lambda: both(one, ["bob", "ann"], at_once))
            assert ["ann" in answers[0], "bob" in answers[1]] == [True, True]
            assert len(stand_in.asked()) == before

    asyncio.run(main())


async def one_by_one(agent: Agent[Any]) -> list[str]:
    """Run the agent several times, each time when the time before is over, whichever task that was in."""
    said = [await whole(agent, "ann"), await in_pieces(agent, "bob")]
    said += [await asyncio.create_task(whole(agent, name)) for name in ("cid", "dan")]
    said += [await whole(agent, "eve"), await asyncio.create_task(in_pieces(agent, "fay"))]

    async def more() -> list[str]:
        gus = await whole(agent, "gus")
        return [gus, await asyncio.create_task(whole(agent, "hal")), await whole(agent, "ian")]

    return said + await asyncio.create_task(more())


def test_runs_one_after_another_are_told_apart_by_their_order(tmp_path: Path) -> None:
    async def main() -> None:
        async with asked(calls(("balance", {})), tmp_path) as (model, stand_in):
            agent = clerk(model)

            async def first() -> None:
                await one_by_one(agent)
                raise ConnectionError

            with pytest.raises(ConnectionError):
                await durably(first, tmp_path)
            before = len(stand_in.asked())
            said = await again(tmp_path, lambda: one_by_one(agent))
            people = ("ann", "bob", "cid", "dan", "eve", "fay", "gus", "hal", "ian")
            assert [name in text for name, text in zip(people, said, strict=True)] == [True] * len(people)
            assert len(stand_in.asked()) == before

    asyncio.run(main())


def test_a_run_that_failed_in_a_task_is_tried_again_by_whoever_waited_for_it(tmp_path: Path) -> None:
    @function_tool(failure_error_function=None)
    async def flaky(ctx: RunContextWrapper[list[str]]) -> str:
        """Fail the first time."""
        ctx.context.append("called")
        if len(ctx.context) == 1:
            raise ConnectionError
        return "up"

    async def main() -> None:
        async with asked(calls(("flaky", {})), tmp_path) as (model, _):
            agent, tries = Agent("helper", model=model, tools=[flaky]), list[str]()

            async def branch() -> str:
                with pytest.raises(Exception, match="flaky"):
                    await asyncio.create_task(_said(agent, tries))
                return await _said(agent, tries)

            async def body() -> str:
                return await asyncio.create_task(branch())

            assert "up" in await durably(body, tmp_path)

    asyncio.run(main())


async def _said(agent: Agent[Any], context: list[str]) -> str:
    return str((await Runner.run(agent, ASK, context=context)).final_output)
