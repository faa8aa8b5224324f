"""Tools of a crew in a run: their effects, their keys, what people are asked, what ends the run's work."""

from __future__ import annotations

import asyncio
import re
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from crewai import Crew
from crewai.tools import BaseTool, tool
from pydantic import BaseModel

import outlast
from outlast import App, BudgetExceeded, EncodingError, workflow
from outlast.adapters.crewai import models
from outlast.adapters.crewai.tools import settings_of
from outlast.crewai import durable
from tests.adapters.crewai.running import a_task, an_agent, answer_next, begun_again, one_task, saying, text_model
from tests.adapters.stand_in import Asked, Reply, ToolCall

did: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    did.clear()


@tool("Marked one")
@outlast.effect("once", confirm=lambda key, word: outlast.Unknown())
def marked(word: str) -> str:
    """Do."""
    did["marked"] += 1
    return f"{word} {len(outlast.idempotency_key())}"


@tool("plain")
def plain(word: str) -> str:
    """Do."""
    did["plain"] += 1
    return word


class Class(BaseTool):
    """A tool that is a class."""

    name: str = "class"
    description: str = "Do."

    @outlast.effect("pure")
    def _run(self, word: str) -> str:
        return word


def test_a_tool_says_its_effect_in_one_of_several_ways() -> None:
    def effect(of: BaseTool, **given: Any) -> str:
        return settings_of(of, given).effect.value

    assert effect(marked) == "once"
    assert effect(plain) == "idempotent"
    assert effect(Class()) == "pure"
    assert effect(plain, plain="pure") == "pure"
    assert effect(marked, marked_one="idempotent") == "idempotent"
    assert settings_of(marked, {"Marked one": {"effect": "once", "timeout": 5}}).timeout == 5
    with pytest.raises(outlast.WrongUse, match="effect='twice'"):
        effect(plain, plain="twice")


@workflow(loop="native")
async def with_marked(url: str) -> str:
    """Call a tool that is marked."""
    crew = one_task(url, 'CALL marked_one {"word": "a"}', "SAY done", tools=[marked])
    return str((await durable(crew).akickoff()).raw)


def test_a_tool_runs_in_its_step_with_its_effect_and_key(tmp_path: Path) -> None:
    async def main(url: str) -> None:
        async with App("memory://") as app:
            run = await app.start(with_marked(url))
            assert await run.result() == "done [('marked_one-0', 'a 32')]"
            (step,) = [step for step in await run.steps() if step.name == "marked_one"]
            assert (step.effect, step.state) == ("once", "done")
            usage = await run.usage()
            assert usage.spent.total == 30  # two answers of the stand-in
            assert list(usage.models) == ["gpt-4o"]

    with saying(tmp_path) as stand_in:
        asyncio.run(main(stand_in.url))


@tool("odd")
def odd(word: str) -> Any:
    """Return what cannot be kept."""
    did["odd"] += 1
    return {"lock": threading.Lock()}


@workflow(loop="native")
async def with_odd(url: str, form: str, in_words: bool) -> str:
    """Call a tool whose result no journal can keep."""
    tools = {"tools": [odd]}
    fields: dict[str, Any] = {}
    if in_words:
        fields["llm"] = text_model(url)
    order = ("ACT" if in_words else "CALL") + ' odd {"word": "a"}'
    crew = durable(one_task(url, order, "SAY done", **tools, **fields))
    return str((await getattr(crew, form)()).raw)


@pytest.mark.parametrize("in_words", [False, True])
@pytest.mark.parametrize("form", ["akickoff", "kickoff_async"])
def test_a_result_that_no_journal_can_keep_ends_the_work_at_once(form: str, in_words: bool, tmp_path: Path) -> None:
    """The framework would have the model hear of it, and the tool called again."""

    async def main(url: str) -> None:
        async with App("memory://") as app:
            with pytest.raises(EncodingError, match="lock"):
                await (await app.start(with_odd(url, form, in_words))).result(timeout=30)

    with saying(tmp_path) as stand_in:
        asyncio.run(main(stand_in.url))
        assert len(stand_in.asked()) == 1
    assert did["odd"] == 1


@workflow(loop="native", max_tokens=10)
async def spending(url: str, form: str) -> str:
    """Ask until the budget is used up, with an agent whose work is handed on, in a task that runs beside."""
    handed = '{"task": "SAY told", "context": "", "coworker": "worker"}'
    boss, worker = an_agent(url, "boss", allow_delegation=True), an_agent(url, "worker")
    beside = a_task(boss, f"CALL delegate_work_to_coworker {handed}", "SAY all", async_execution=True)
    crew = durable(Crew(agents=[boss, worker], tasks=[beside, a_task(worker, "SAY last")]))
    return str((await getattr(crew, form)()).raw)


@pytest.mark.parametrize("form", ["akickoff", "kickoff_async"])
def test_a_budget_ends_the_run_and_not_only_a_tool(form: str, tmp_path: Path) -> None:
    async def main(url: str) -> None:
        async with App("memory://") as app:
            with pytest.raises(BudgetExceeded):
                await (await app.start(spending(url, form))).result(timeout=30)

    with saying(tmp_path) as stand_in:
        asyncio.run(main(stand_in.url))
        assert len(stand_in.asked()) == 1


@workflow(loop="native")
async def asking(url: str, form: str) -> str:
    """Have people look at a result."""
    crew = one_task(url, "SAY hello", of_task={"human_input": True, "name": "greet"})
    return str((await getattr(durable(crew, to="desk"), form)()).raw)


@pytest.mark.parametrize("form", ["akickoff", "kickoff_async"])
def test_people_accept_a_result_or_say_what_is_to_be_changed_whatever_becomes_of_workers(
    form: str, tmp_path: Path
) -> None:
    async def main(url: str) -> None:
        store = f"sqlite:///{tmp_path / 'a.db'}"
        async with App(store) as app:
            await app.start(asking(url, form), id="asks")
            data = await answer_next(app, approve=False, note="this:\nSAY goodbye")
            assert data["task"] == "greet"
            assert data["agent"] == "one"
            assert "hello" in data["result"]
            while "goodbye" not in str((await app.approvals() or [None])[0]):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        async with App(store) as app:
            assert (await app.approvals())[0].to == "desk"
            assert "goodbye" in (await answer_next(app))["result"]
            assert "goodbye" in await (await app.get("asks")).result()

    with saying(tmp_path) as stand_in:
        asyncio.run(main(stand_in.url))
        assert len(stand_in.asked()) == 2


@workflow(loop="native")
async def wide(url: str) -> list[str]:
    """Have many crews work side by side, more than the loop has threads for."""
    crew = one_task(url, 'CALL plain {"word": "{who}"}', "SAY {who}", tools=[plain])
    outputs = await durable(crew).akickoff_for_each([{"who": f"n{n}"} for n in range(40)])
    said = [output.raw for output in outputs]
    await outlast.approve("Go on?")
    return said


def test_many_crews_side_by_side_are_told_what_is_recorded(tmp_path: Path) -> None:
    with saying(tmp_path) as stand_in:
        said = asyncio.run(begun_again(f"sqlite:///{tmp_path / 'a.db'}", wide(stand_in.url)))
        assert len(stand_in.asked()) == 80
    assert said == [f"n{n} [('plain-0', 'n{n}')]" for n in range(40)]
    assert did["plain"] == 40


both_begun = threading.Barrier(2)


@tool("counted")
def counted(word: str) -> str:
    """Return another number each time."""
    both_begun.wait(20)
    did["counted"] += 1
    return f"{word} {did['counted']}"


PASSES: list[str] = []


@workflow(loop="native")
async def twins(url: str) -> str:
    """Make two calls at once that are alike."""
    crew = one_task(url, 'CALL counted {"word": "a"}, {"word": "a"}', "SAY done", tools=[counted])
    PASSES.append((await durable(crew).akickoff()).raw)
    await outlast.approve("Go on?")
    return PASSES[-1]


def test_two_calls_at_once_that_are_alike_are_each_told_their_own(tmp_path: Path) -> None:
    PASSES.clear()
    with saying(tmp_path) as stand_in:
        asyncio.run(begun_again(f"sqlite:///{tmp_path / 'a.db'}", twins(stand_in.url)))
    assert len(PASSES) == 2
    assert PASSES[0] == PASSES[1]
    assert did["counted"] == 2


LONG = "\n".join(f"line {n}" for n in range(60_000))


@tool("long")
def long(word: str) -> str:
    """Return a text that is too long for a model."""
    return LONG


def reads_on(asked: Asked) -> Reply:
    """Call a tool, read on in what it gave, call another, and tell."""
    answers = asked.results()
    if "long-1" not in answers:
        return Reply(calls=(ToolCall("long-1", "long", {"word": "a"}),))
    (name,) = re.findall(r"relative file path `([^`]+)`", answers["long-1"])
    if "read-1" not in answers:
        args = {"file_path": name, "start_line": 50_000, "line_count": 1}
        return Reply(calls=(ToolCall("read-1", "read_a_deferred_tool_result", args),))
    if "plain-1" not in answers:
        return Reply(calls=(ToolCall("plain-1", "plain", {"word": name}),))
    assert answers["plain-1"] == name
    return Reply(text=answers["read-1"])


@workflow(loop="native")
async def reading(url: str) -> str:
    """Have a model read on in a long result, and begin again before it is asked for the last time."""
    crew = one_task(url, "read", tools=[long, plain])
    return str((await durable(crew, approve=["plain"]).akickoff()).raw)


def test_the_file_of_a_long_result_has_its_name_again(tmp_path: Path) -> None:
    with saying(tmp_path, reads_on) as stand_in:
        read = asyncio.run(begun_again(f"sqlite:///{tmp_path / 'a.db'}", reading(stand_in.url)))
        assert len(stand_in.asked()) == 4
    assert read.strip() == "line 49999"


def test_a_crew_is_left_as_it_was_and_its_copy_does_the_same_outside_of_runs(tmp_path: Path) -> None:
    with saying(tmp_path) as stand_in:
        crew = one_task(stand_in.url, 'CALL plain {"word": "a"}', "SAY done", tools=[plain])
        agent, task = crew.agents[0], crew.tasks[0]
        models = agent.llm
        before = (dict(vars(agent)), dict(vars(task)), dict(vars(plain)), dict(crew.agents[0].llm._token_usage))
        copy = durable(crew)
        assert isinstance(copy, Crew)
        assert type(copy).__name__ == "Crew"
        assert copy.kickoff().raw == "done [('plain-0', 'a')]"
        assert copy.copy().kickoff().raw == "done [('plain-0', 'a')]"
        assert (dict(vars(agent)), dict(vars(task)), dict(vars(plain)), dict(agent.llm._token_usage)) == before
        assert agent.llm is models
        assert type(plain).__module__ == "crewai.tools.base_tool"
        assert crew.kickoff().raw == "done [('plain-0', 'a')]"


class Person(BaseModel):
    """What newer code wants a model to give; older code knew no age."""

    name: str
    age: int = 7


def test_an_object_that_older_code_recorded_has_what_newer_code_has_added() -> None:
    kept = {"value": None, "filled_in": {"name": "Ada"}, "used": {"total_tokens": 3}}
    outcome = models._Form(Person).told(kept)
    assert outcome.value == Person(name="Ada", age=7)
    assert outcome.used == {"total_tokens": 3}
