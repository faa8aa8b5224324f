"""People decide about calls of tools: once, for the call that was shown, at any depth."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Runner, function_tool

from outlast import App, ApprovalInfo, WrongUse
from outlast.openai_agents import decide
from tests.adapters.openai_agents import desk, scenes
from tests.adapters.openai_agents.scenes import asked, durably, processes
from tests.adapters.stand_in import Asked, Reply, ToolCall, serving
from tests.behaviour.stage import eventually

made: list[str] = []


@function_tool(needs_approval=True)
async def send(to: str) -> str:
    """Send something."""
    made.append(to)
    return f"sent to {to}"


@pytest.fixture(autouse=True)
def nothing_made() -> None:
    made.clear()


def in_turn(*wanted: ToolCall) -> Callable[[Asked], Reply]:
    """Have the model call tools one after the other, and then say what they gave."""

    def says(asked: Asked) -> Reply:
        results = asked.results()
        left = [call for call in wanted if call.id not in results]
        return Reply(calls=(left[0],)) if left else Reply(json.dumps(results, sort_keys=True))

    return says


async def _ask_until_done(agent: Any, **more: Any) -> str:
    result = await Runner.run(agent, "help")
    while result.interruptions:
        result = await Runner.run(agent, await decide(result, **more))
    return str(result.final_output)


async def _run(what: Callable[[], Awaitable[Any]], folder: Path, decides: Callable[[ApprovalInfo], bool]) -> Any:
    """Run the scene, close its App whenever it waits for people, and decide meanwhile."""
    scenes.scenario = what
    url = f"sqlite:///{folder}/runs.db"
    while not await _has_ended(url):
        async with App(url, worker=False) as app:
            for waiting in await app.approvals():
                await (app.approve if decides(waiting) else app.reject)(waiting.id, by="ada", note="not today")
    async with App(url, worker=False) as app:
        return await (await app.get("scene")).result()


async def _has_ended(url: str) -> bool:
    """Go on with the scene until it asks, and close its App; tell whether it has ended."""
    async with App(url) as app:
        run = await app.start(scenes.scene(), id="scene")
        ended = asyncio.create_task(run.result())

        async def asks_or_ends() -> bool:
            return ended.done() or bool(await app.approvals())

        await eventually(asks_or_ends)
        over = ended.done()
        if over:
            await ended
        else:
            ended.cancel()
        return over


def test_a_rejection_and_its_note_are_told_to_the_model(tmp_path: Path) -> None:
    async def main() -> None:
        async with asked(in_turn(ToolCall("c1", "send", {"to": "ada"})), tmp_path) as (model, _):
            agent = Agent("clerk", model=model, tools=[send])
            assert await _run(lambda: _ask_until_done(agent), tmp_path, lambda _: False) == '{"c1": "not today"}'
        assert made == []

    asyncio.run(main())


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_three_questions_in_a_row_are_each_asked_and_answered_at_any_depth(depth: int, tmp_path: Path) -> None:
    wanted = [ToolCall(f"c{n}", "send", {"to": name}) for n, name in enumerate(("ada", "bob", "eve"))]
    seen: list[Any] = []

    def says(asked: Asked) -> Reply:
        if asked.said(0) == "0":
            return in_turn(*wanted)(asked)
        return in_turn(ToolCall(f"d{asked.said(0)}", "deeper", {"input": "do it"}))(asked)

    def decides(waiting: ApprovalInfo) -> bool:
        seen.append(waiting.data)
        return waiting.data["arguments"] != {"to": "bob"}

    async def main() -> None:
        async with asked(says, tmp_path) as (model, stand_in):
            agent = Agent[Any]("agent 0", instructions="0", model=model, tools=[send])
            for level in range(1, depth + 1):
                tool = agent.as_tool("deeper", "Ask.")
                agent = Agent[Any](f"agent {level}", instructions=str(level), model=model, tools=[tool])
            answer = await _run(lambda: _ask_until_done(agent), tmp_path, decides)
            assert "sent to ada" in answer
            assert "not today" in answer
            assert made == ["ada", "eve"]
            assert [data["arguments"]["to"] for data in seen] == ["ada", "bob", "eve"]
            assert len(stand_in.asked()) == len({json.dumps(body) for body in stand_in.asked()})

    asyncio.run(main())


def test_many_processes_answer_at_once_and_the_guarded_effect_fires_once(tmp_path: Path) -> None:
    with serving(desk.says, tmp_path / "asked") as stand_in:
        scene = desk.set_up(tmp_path, stand_in.url)
        answer = asyncio.run(_answered_by_many(scene))
    counted = (tmp_path / "answers").read_text().splitlines()
    assert len(counted) == 2  # one for each question
    paid = [line for line in counted if line.startswith(answer[0])]
    assert len(scene.done("pay")) == (1 if paid[0].endswith("approved") else 0)
    assert ("paid 3" in answer[1]) == paid[0].endswith("approved")


async def _answered_by_many(scene: desk.Scene) -> tuple[str, str]:
    assert scene.client is not None
    async with scene.client, App(scene.store) as app:
        run = await app.start(desk.desk("help", False), id=desk.RUN)

        async def both_are_asked() -> bool:
            return len(await app.approvals()) == 2

        await eventually(both_are_asked)
        waiting = await app.approvals()
        ledger = scene.folder / "answers"
        people = [
            processes.Process(target=desk.answer, args=(scene.store, asked.id, yes, ledger))
            for yes in (True, False, True)
            for asked in waiting
        ]
        for person in people:
            person.start()
        result = await run.result(timeout=60)
        for person in people:
            await asyncio.to_thread(person.join, 60)
            assert person.exitcode == 0
    about_pay = next(asked.id for asked in waiting if asked.data["tool"] == "pay")
    return about_pay, result


def test_a_question_says_what_the_program_wants_and_expires(tmp_path: Path) -> None:
    async def main() -> None:
        async with asked(in_turn(ToolCall("c1", "send", {"to": "ada"})), tmp_path) as (model, _):
            agent = Agent("clerk", model=model, tools=[send])

            async def body() -> Any:
                result = await Runner.run(agent, "help")
                with pytest.raises(TimeoutError, match=r"May I call send\?"):
                    await decide(result, question=lambda item: f"May I call {item.name}?", timeout=0.05, to="ada")
                return "nobody there"

            assert await durably(body, tmp_path) == "nobody there"
        assert made == []

    asyncio.run(main())


def test_a_result_that_waits_for_nothing_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with asked(in_turn(), tmp_path) as (model, _):
            result = await Runner.run(Agent("clerk", model=model), "help")
            with pytest.raises(WrongUse, match="waits for no approval"):
                await decide(result)

    asyncio.run(main())
