"""What graphs ask people: which question they read, and what the graph is given for their answer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from pydantic import BaseModel
from typer.testing import CliRunner

from outlast import App, ApprovalInfo, WrongUse
from outlast.cli import app as cli
from outlast.langgraph import Middleware, durable
from tests.adapters.langgraph.desk import model
from tests.adapters.langgraph.graphs import Log
from tests.adapters.stand_in import Asked, Reply, ToolCall, serving

ORDERS = ("56", "57")


@tool
def pay(order: str, cents: int) -> str:
    """Pay an order."""
    return f"paid {cents} for {order}"


def says(asked: Asked) -> Reply:
    """Pay both orders, then say so."""
    if asked.results():
        return Reply("done")
    return Reply(calls=tuple(ToolCall(f"c{n}", "pay", {"order": n, "cents": 2500}) for n in ORDERS))


def asker(*values: Any, schema: Any = None) -> Any:
    """Make a graph whose node asks this, and logs the answers."""
    settings = {} if schema is None else {"response_schema": schema}

    def ask(_: Log) -> Any:
        return {"log": [interrupt(value, **settings) for value in values]}

    return StateGraph(Log).add_node("ask", ask).add_edge(START, "ask").compile(name="asker")


async def next_of(app: App, seen: set[str]) -> list[ApprovalInfo]:
    """Wait until the run asks what it has not asked before."""
    run = await app.get("r")
    while not (asked := [one for one in await app.approvals() if one.id not in seen]):
        assert str(await run.status()) in ("pending", "running", "waiting")
        await asyncio.sleep(0.01)
    seen.update(one.id for one in asked)
    return asked


async def answered(folder: Path, graph: Any, input: Any, *forms: Any) -> tuple[Any, list[ApprovalInfo]]:
    """Run a graph, give these forms to its questions in turn; return its result and what it asked."""
    questions: list[ApprovalInfo] = []
    seen = set[str]()
    async with App(f"sqlite:///{folder / 'agent.db'}", park_after=0.01) as app:
        run = await app.start(durable(graph, to="desk")(input), id="r")
        for form in forms:
            (question,) = await next_of(app, seen)
            questions.append(question)
            if isinstance(form, bool):
                await (app.approve if form else app.reject)(question.id, note="" if form else "no budget")
            else:
                await app.approve(question.id, form=form)
        return await run.result(30), questions


def agent(url: str, mode: str = "batched", allowed: Any = True) -> Any:
    people = HumanInTheLoopMiddleware({"pay": allowed}, interrupt_mode=mode)  # type: ignore[arg-type]
    return create_agent(model(url), [pay], middleware=[people, Middleware()], name="payer")


def results(result: Any) -> dict[str, str]:
    """Return what the tools have given, by their calls."""
    return {one.tool_call_id: str(one.content) for one in result["messages"] if isinstance(one, ToolMessage)}


EDIT = {"type": "edit", "edited_action": {"name": "pay", "args": {"order": "56", "cents": 100}}}


async def test_each_of_several_calls_gets_its_own_decision(tmp_path: Path) -> None:
    decisions = [EDIT, {"type": "respond", "message": "paid already"}]
    with serving(says, tmp_path / "asked") as stand_in:
        graph = agent(stand_in.url)
        result, (asked,) = await answered(tmp_path, graph, {"messages": [("user", "pay")]}, {"decisions": decisions})
    assert asked.question == 'pay({"order": "56", "cents": 2500}); pay({"order": "57", "cents": 2500})'
    assert [call["name"] for call in asked.data["action_requests"]] == ["pay", "pay"]
    assert asked.to == "desk"
    assert asked.form == {}  # any JSON
    told = results(result)
    assert "paid 100 for 56" in told["c56"]
    assert told["c57"] == "paid already"


@pytest.mark.parametrize(("yes", "told"), [(True, "paid 2500 for 56"), (False, "no budget")])
async def test_yes_and_no_are_decisions_about_all_calls(tmp_path: Path, yes: bool, told: str) -> None:
    with serving(says, tmp_path / "asked") as stand_in:
        result, _ = await answered(tmp_path, agent(stand_in.url), {"messages": [("user", "pay")]}, yes)
    assert told in results(result)["c56"]


BAD = [
    ({"decisions": []}, "with 2 of them, one for each call"),
    (["approve"], "with 2 of them, one for each call"),
    ({"decisions": [{"type": "edit"}, {"type": "approve"}]}, 'an edit needs "edited_action"'),
    ({"decisions": [{"type": "approve"}, {"type": "respond"}]}, "allowed are approve, edit"),
    (False, '"reject" is no decision about this call; allowed are approve, edit'),
]


async def test_people_are_asked_again_where_an_answer_cannot_be_used(tmp_path: Path) -> None:
    with serving(says, tmp_path / "asked") as stand_in:
        graph = agent(stand_in.url, allowed={"allowed_decisions": ["approve", "edit"]})
        forms = [form for form, _ in BAD]
        result, asked = await answered(tmp_path, graph, {"messages": [("user", "pay")]}, *forms, True)
    assert results(result) == {"c56": "paid 2500 for 56", "c57": "paid 2500 for 57"}
    assert len({one.id for one in asked}) == len(BAD) + 1
    for again, (_, problem) in zip(asked[1:], BAD, strict=True):
        assert problem in again.question
        assert again.question.endswith(f"asked again: {asked[0].question}")


async def test_calls_that_are_asked_about_one_by_one_get_one_decision_each(tmp_path: Path) -> None:
    answers: dict[str, Any] = {"56": EDIT, "57": False}
    with serving(says, tmp_path / "asked") as stand_in:
        graph = agent(stand_in.url, mode="per_call")
        seen = set[str]()
        async with App(f"sqlite:///{tmp_path}/agent.db", park_after=0.01) as app:
            run = await app.start(durable(graph)({"messages": [("user", "pay")]}), id="r")
            while len(seen) < 2:
                for one in await next_of(app, seen):
                    order = one.data["args"]["order"]
                    assert one.question == f'pay({{"order": "{order}", "cents": 2500}})'
                    if answers[order] is False:
                        await app.reject(one.id, note="no budget")
                    else:
                        await app.approve(one.id, form=answers[order])
            told = results(await run.result(30))
    assert "paid 100 for 56" in told["c56"]
    assert "no budget" in told["c57"]


async def test_a_node_gets_the_form_that_was_filled_in(tmp_path: Path) -> None:
    result, asked = await answered(tmp_path, asker("how many?", {"sure": True}), {"log": []}, {"many": 5}, True)
    assert result == {"log": [{"many": 5}, True]}
    assert [one.question for one in asked] == ["how many?", 'asker asks: {"sure": true}']


class Amount(BaseModel):
    """What the node wants to hear."""

    cents: int


async def test_an_answer_that_the_graph_refuses_is_asked_for_again(tmp_path: Path) -> None:
    graph = asker("how much?", schema=Amount)
    result, asked = await answered(tmp_path, graph, {"log": []}, {"cents": "much"}, True, {"cents": 5})
    assert result == {"log": [Amount(cents=5)]}
    assert asked[1].question.startswith("the answer does not fit (cents: ")
    assert [one.question.endswith("how much?") for one in asked] == [True] * 3


async def test_what_cannot_be_a_question_is_shown_by_other_words(tmp_path: Path) -> None:
    long, data = "x" * 20_000, {"text": "ä" * 20_000}
    _, asked = await answered(tmp_path, asker("", long, data), {"log": []}, True, True, True)
    assert asked[0].question == "asker asks"
    assert [len(one.question) for one in asked[1:]] == [1_000, 1_000]
    assert [one.data for one in asked] == ["", long, data]


def test_the_command_line_fills_in_the_form(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agent.db"

    async def scene() -> Any:
        async with App(url) as app:
            run = await app.start(durable(asker("how many?"))({"log": []}), id="r")
            (asked,) = await next_of(app, set())
            arguments = ["approve", asked.id, "--form", '{"many": 5}', "--url", url]
            done = await asyncio.to_thread(CliRunner().invoke, cli, arguments)
            assert done.exit_code == 0, done.output
            return await run.result(30)

    assert asyncio.run(scene()) == {"log": [{"many": 5}]}


def test_for_whom_it_is_has_to_be_a_text() -> None:
    with pytest.raises(WrongUse, match="durable"):
        durable(asker("?"), to=5)  # type: ignore[arg-type]
