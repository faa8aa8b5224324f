"""Graphs on our checkpointer do what they do on LangGraph's own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send, interrupt

import outlast
from outlast import App, WrongUse, sync
from outlast.langgraph import Saver
from tests.adapters.langgraph.graphs import Log, line_of, thread

DURABILITIES = ("sync", "async", "exit")


def histories(graph: StateGraph[Any], saver: Saver, play: Any) -> list[Any]:
    """Return what a play gives, and the history that it leaves, on our checkpointer and on LangGraph's."""
    told = []
    for checkpointer in (saver, InMemorySaver()):
        compiled = graph.compile(checkpointer=checkpointer)
        result = play(compiled)
        history = [
            (s.values, s.next, s.metadata["source"], s.metadata["step"]) for s in compiled.get_state_history(thread())
        ]
        told.append((result, history))
    return told


@pytest.mark.parametrize("durability", DURABILITIES)
def test_turns_leave_the_same_history(saver: Saver, durability: Any) -> None:
    def play(graph: Any) -> Any:
        return [graph.invoke({"log": [str(n)]}, thread(), durability=durability) for n in range(3)]

    ours, theirs = histories(line_of("a", "b"), saver, play)
    assert ours == theirs


def test_going_back_in_time_and_branching_off_leave_the_same_history(saver: Saver) -> None:
    def play(graph: Any) -> Any:
        for n in range(2):
            graph.invoke({"log": [str(n)]}, thread())
        states = list(graph.get_state_history(thread()))
        again = graph.invoke(None, states[3].config)
        branch = graph.invoke({"log": ["branch"]}, states[4].config)
        changed = graph.update_state(states[2].config, {"log": ["changed"]})
        on = graph.invoke(None, changed)
        graph.update_state(thread(), {"log": ["last"]})
        return again, branch, on, graph.get_state(thread()).values

    ours, theirs = histories(line_of("a", "b"), saver, play)
    assert ours == theirs


def test_subgraphs_that_keep_state_go_back_in_time_with_their_graph(saver: Saver) -> None:
    inner = line_of("deep").compile(checkpointer=True)
    outer = StateGraph(Log).add_node("sub", inner).add_node("b", lambda state: {"log": ["b"]})
    outer.add_edge(START, "sub").add_edge("sub", "b")

    def play(graph: Any) -> Any:
        for n in range(3):
            graph.invoke({"log": [str(n)]}, thread())
        states = [state for state in graph.get_state_history(thread()) if state.next == ("sub",)]
        return [graph.invoke(None, state.config) for state in states]

    ours, theirs = histories(outer, saver, play)
    assert ours == theirs


def test_a_fan_out_of_subgraphs_is_whole(saver: Saver) -> None:
    inner = line_of("x", "y").compile()
    outer = StateGraph(Log).add_node("sub", inner)
    outer.add_conditional_edges(START, lambda _: [Send("sub", {"log": [str(n)]}) for n in range(5)], ["sub"])
    ours, theirs = histories(outer, saver, lambda graph: graph.invoke({"log": []}, thread()))
    assert ours == theirs
    assert len(ours[0]["log"]) == 15


def test_an_interrupt_is_answered_in_another_process_of_the_graph(url: str) -> None:
    asked = []

    def ask(state: Log) -> Any:
        asked.append(state)
        return {"log": [interrupt("may I?")]}

    graph = StateGraph(Log).add_node("ask", ask).add_edge(START, "ask")
    with Saver(url) as first:
        stopped: Any = graph.compile(checkpointer=first).invoke({"log": ["hello"]}, thread())
        assert stopped["__interrupt__"][0].value == "may I?"
    with Saver(url) as second:
        answer: Any = Command(resume="yes")
        assert graph.compile(checkpointer=second).invoke(answer, thread()) == {"log": ["hello", "yes"]}
    assert len(asked) == 2


@pytest.mark.parametrize("durability", DURABILITIES)
def test_tasks_that_have_finished_are_not_run_again(saver: Saver, durability: Any) -> None:
    ran = []

    @task
    def charge(cents: int) -> int:
        ran.append(cents)
        return cents

    @entrypoint(checkpointer=saver)
    def order(cents: int) -> Any:
        return charge(cents).result(), interrupt("ship?")

    order.invoke(5, thread(), durability=durability)
    answer: Any = Command(resume="yes")
    assert order.invoke(answer, thread(), durability=durability) == (5, "yes")
    assert ran == [5]


def test_a_thread_is_one_under_all_spellings_of_its_id(saver: Saver) -> None:
    graph = line_of("a").compile(checkpointer=saver)
    some = UUID("2f1a6f0e-8f4b-4b44-9f0d-5d6f5a4b7c11")
    for spellings in ((42, "42"), (some, str(some))):
        for spelt in spellings:
            graph.invoke({"log": []}, thread(spelt))
        assert [graph.get_state(thread(spelt)).values["log"] for spelt in spellings] == [["a", "a"]] * 2
    with pytest.raises(WrongUse, match="not float"):
        saver.get_tuple(thread(4.5))


def test_a_saver_that_comes_with_the_call_does_the_same(saver: Saver) -> None:
    ran = []

    @task
    def draw() -> int:
        ran.append(1)
        return len(ran)

    @entrypoint()
    def given_later(_: int) -> Any:
        return draw().result(), interrupt("go on?")

    config = thread(__pregel_checkpointer=saver)
    given_later.invoke(1, config)
    answer: Any = Command(resume="yes")
    assert given_later.invoke(answer, config) == (1, "yes")


async def _on_the_loop_of_the_app(url: str) -> Any:
    async with App(url) as app:
        graph = line_of("a", "b").compile(checkpointer=Saver(app))
        with pytest.raises(WrongUse, match="use ainvoke"):
            graph.invoke({"log": []}, thread("sync"))
        await asyncio.to_thread(graph.invoke, {"log": ["thread"]}, thread())
        return await graph.ainvoke({"log": ["loop"]}, thread())


def test_an_app_serves_its_own_loop_and_threads(url: str) -> None:
    assert asyncio.run(_on_the_loop_of_the_app(url)) == {"log": ["thread", "a", "b", "loop", "a", "b"]}


def test_a_blocking_app_serves_any_loop(url: str) -> None:
    with sync.App(url) as app:
        graph = line_of("a").compile(checkpointer=Saver(app))
        assert graph.invoke({"log": []}, thread()) == {"log": ["a"]}
        assert asyncio.run(graph.ainvoke({"log": []}, thread())) == {"log": ["a", "a"]}
        assert asyncio.run(graph.ainvoke({"log": []}, thread())) == {"log": ["a"] * 3}


def test_a_saver_that_was_closed_opens_again(saver: Saver) -> None:
    graph = line_of("a").compile(checkpointer=saver)
    graph.invoke({"log": []}, thread())
    saver.close()
    assert graph.get_state(thread()).values == {"log": ["a"]}


def test_without_a_url_the_store_is_the_default_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTLAST_URL", f"sqlite:///{tmp_path}/mine.db")
    with Saver() as saver:
        line_of("a").compile(checkpointer=saver).invoke({"log": []}, thread())
    assert (tmp_path / "mine.db").exists()


def test_an_app_that_is_not_open_says_so(tmp_path: Path) -> None:
    saver = Saver(App(f"sqlite:///{tmp_path}/agent.db"))
    with pytest.raises(WrongUse, match="not open"):
        saver.get_tuple(thread())


@outlast.workflow
async def asks_a_graph(url: str) -> Any:
    return await line_of("a").compile(checkpointer=Saver(url)).ainvoke({"log": []}, thread())


def test_a_workflow_body_is_told_to_use_a_step(url: str) -> None:
    with sync.App(url) as app:
        run = app.start(asks_a_graph(url))
        with pytest.raises(WrongUse, match="in a step"):
            run.result()
