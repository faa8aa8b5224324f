"""Graphs as runs: started once, taken over, asked people for, drained, and alone on their threads."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langgraph.graph import START, StateGraph

from outlast import App, WrongUse, sync
from outlast.langgraph import Saver, ThreadOwned, durable
from tests.adapters.langgraph.graphs import Ledger, Log, line_of, thread
from tests.adapters.langgraph.programs import program
from tests.adapters.langgraph.supervised import asking_agent, line_agent


@pytest.mark.parametrize("place", ["a", "b", "d"])
def test_a_run_whose_worker_is_killed_goes_on_from_its_last_checkpoint(url: str, tmp_path: Path, place: str) -> None:
    ledger = tmp_path / "ledger"
    with sync.App(url, worker=False) as app:
        run = app.start(line_agent({"log": ["input"]}), id="t")
        with program("supervised", url, str(ledger), place) as first:
            while first.hear() != f"in {place}":
                pass
            first.kill()
        with program("supervised", url, str(ledger)):
            assert run.result(30) == {"log": ["input", *"abcd"]}
    assert Ledger(ledger).counts() == {**dict.fromkeys("abcd", 1), place: 2}


WHOLE = {"log": ["a", "a", "True False", "b"]}
"""What the asking graph gives. (Its subgraph gives back what it was given, too.)"""


def next_question(run: Any, seen: set[str]) -> str:
    """Wait until a run asks what it has not asked before; return the approval's id."""
    while not (asked := [one for one in run.approvals() if one.id not in seen]):
        pass
    (one,) = asked
    assert (one.question, one.data) == ("may I?", "may I?")
    seen.add(one.id)
    return str(one.id)


def test_what_a_subgraph_asks_twice_is_asked_of_people_twice(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.adapters.langgraph.supervised.LEDGER", str(tmp_path / "ledger"))
    seen = set[str]()
    with sync.App(url, park_after=0.01) as app:
        run = app.start(asking_agent({"log": []}), id="t")
        app.approve(next_question(run, seen))
        app.reject(next_question(run, seen))
        assert run.result(30) == WHOLE
    assert Ledger(tmp_path / "ledger").counts() == {"a": 1, "b": 1}


def test_answers_are_kept_when_workers_die_between_them(url: str, tmp_path: Path) -> None:
    ledger, seen = tmp_path / "ledger", set[str]()
    with sync.App(url, worker=False) as app:
        run = app.start(asking_agent({"log": []}), id="t")
        for answer in (app.approve, app.reject):
            with program("supervised", url, str(ledger)) as worker:
                question = next_question(run, seen)
                worker.kill()
            answer(question)
        with program("supervised", url, str(ledger)):
            assert run.result(30) == WHOLE
    assert Ledger(ledger).counts() == {"a": 1, "b": 1}


def test_a_run_is_drained_before_the_next_step_of_its_graph(url: str) -> None:
    inside, ran = asyncio.Event(), []

    async def first(_: Log) -> Any:
        ran.append("first")
        inside.set()
        await asyncio.sleep(0.2)  # in the midst of it the drain begins
        return {"log": ["first"]}

    async def second(_: Log) -> Any:
        ran.append("second")
        return {"log": ["second"]}

    graph = StateGraph(Log).add_node("first", first).add_node("second", second)
    graph.add_edge(START, "first").add_edge("first", "second")
    agent = durable(graph.compile(), name="drained")

    async def scene() -> Any:
        async with App(url) as app:
            await app.start(agent({"log": []}), id="t")
            await inside.wait()
            await app.drain()
            assert ran == ["first"]
        async with App(url) as app:
            return await (await app.get("t")).result(30), ran

    assert asyncio.run(scene()) == ({"log": ["first", "second"]}, ["first", "second"])


def test_the_thread_of_a_run_is_its_own(url: str) -> None:
    inside, go_on = asyncio.Event(), asyncio.Event()

    async def held(_: Log) -> Any:
        inside.set()
        await go_on.wait()
        return {"log": ["held"]}

    agent = durable(StateGraph(Log).add_node("held", held).add_edge(START, "held").compile(), name="held")

    async def scene() -> Any:
        async with App(url) as app:
            run = await app.start(agent({"log": []}), id="t")
            await inside.wait()
            graph = line_of("held").compile(checkpointer=Saver(app))
            with pytest.raises(ThreadOwned):
                await graph.ainvoke({"log": ["from outside"]}, thread())
            go_on.set()
            result = await run.result(30)
            return result, await graph.ainvoke({"log": ["after"]}, thread())

    result, after = asyncio.run(scene())
    assert result == {"log": ["held"]}
    assert after == {"log": ["held", "after", "held"]}


def test_an_error_of_a_node_is_that_of_the_run(url: str) -> None:
    def fails(_: Log) -> Any:
        raise LookupError("no such order")

    agent = durable(StateGraph(Log).add_node("n", fails).add_edge(START, "n").compile(), name="fails")
    with sync.App(url) as app, pytest.raises(LookupError, match="no such order"):
        app.start(agent({"log": []}), id="t").result(30)


def test_a_graph_needs_a_name() -> None:
    with pytest.raises(WrongUse, match="compile\\(name="):
        durable(line_of("a").compile())
