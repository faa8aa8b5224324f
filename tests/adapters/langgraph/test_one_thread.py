"""Who writes to a thread: of two at once one is told, a run of Outlast is alone, and what was deleted stays so."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from langgraph.graph import START, StateGraph

import outlast
from outlast import App, sync
from outlast.langgraph import Saver, ThreadConflict, ThreadOwned
from tests.adapters.langgraph.graphs import Log, line_of, thread
from tests.adapters.langgraph.programs import program

DURABILITIES = ("sync", "async", "exit")


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("begun", [False, True], ids=["new", "begun"])
def test_of_two_processes_that_take_a_turn_at_once_one_is_told(url: str, durability: str, begun: bool) -> None:
    before = []
    if begun:
        with Saver(url) as saver:
            before = line_of("a").compile(checkpointer=saver).invoke({"log": ["before"]}, thread())["log"]
    with program("turns", url, "one", durability) as one, program("turns", url, "two", durability) as two:
        said = [one.hear(), two.hear()]  # one may be told before its node begins
        for place, running in enumerate((one, two)):
            if said[place] == "in":
                running.tell()
                said[place] = running.hear()
        assert (one.end(), two.end()) == (0, 0)
    (kept,) = [line for line in said if not line.startswith("ThreadConflict: thread 't' has moved on")]
    with Saver(url) as saver:
        state = line_of("node").compile(checkpointer=saver).get_state(thread()).values["log"]
    assert state == kept.split(", ")
    done = [entry for entry in state if entry.endswith(" did")]
    assert (state[: len(before)], len(done), state[-1]) == (before, 1, done[0])  # of the other no more than its input


def test_whoever_was_told_goes_on_from_what_is_there_and_adds_nothing_twice(saver: Saver) -> None:
    """As the page says it: the input may be in the state already, and then there is none to give."""
    conflicts: list[str] = []
    graph = line_of("a", "b").compile(checkpointer=saver)

    async def turn(text: str) -> None:
        given: Any = {"log": [text]}
        while True:
            try:
                await graph.ainvoke(given, thread())
            except ThreadConflict:
                conflicts.append(text)
                state = await graph.aget_state(thread())
                given = None if text in state.values.get("log", []) else {"log": [text]}
            else:
                return

    async def turns() -> None:
        await asyncio.gather(*(turn(str(n)) for n in range(4)))

    asyncio.run(turns())
    state = graph.get_state(thread())
    assert sorted(entry for entry in state.values["log"] if entry.isdigit()) == ["0", "1", "2", "3"]
    assert state.values["log"][-1] == "b"
    assert (state.next, bool(conflicts)) == ((), True)


def test_of_many_turns_at_once_in_one_process_those_that_are_not_told_are_kept(saver: Saver) -> None:
    graph = line_of("a", "b").compile(checkpointer=saver)

    async def turns(count: int) -> list[Any]:
        invoked = (graph.ainvoke({"log": [str(n)]}, thread(), durability="async") for n in range(count))
        return await asyncio.gather(*invoked, return_exceptions=True)

    told = asyncio.run(turns(8))
    kept = [str(n) for n, result in enumerate(told) if not isinstance(result, BaseException)]
    assert {type(result) for result in told if isinstance(result, BaseException)} == {ThreadConflict}
    log = graph.get_state(thread()).values["log"]
    assert [entry for entry in log if entry.isdigit()] == kept != []


def test_a_branch_that_meets_a_turn_is_told(saver: Saver) -> None:
    """A branch may begin anywhere; but whoever goes on in it is not to hide what came meanwhile."""
    inside, go_on = threading.Event(), threading.Event()

    def held(_: Log) -> Any:
        inside.set()
        assert go_on.wait(30)
        return {"log": ["held"]}

    graph = StateGraph(Log).add_node("held", held).add_edge(START, "held").compile(checkpointer=saver)
    quick = line_of("held").compile(checkpointer=saver)
    quick.invoke({"log": ["1"]}, thread())
    old = list(quick.get_state_history(thread()))[1]
    errors: list[BaseException] = []

    def branch() -> None:
        try:
            graph.invoke(None, old.config, durability="sync")
        except ThreadConflict as error:
            errors.append(error)

    branching = threading.Thread(target=branch)
    branching.start()
    assert inside.wait(30)
    while quick.get_state(thread()).metadata["source"] != "fork":
        pass  # nobody waits for it before the node begins
    quick.invoke({"log": ["2"]}, thread())
    go_on.set()
    branching.join(30)
    assert [type(error) for error in errors] == [ThreadConflict]
    assert quick.get_state(thread()).values["log"][-2:] == ["2", "held"]


@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_graph_whose_thread_is_deleted_brings_nothing_back(url: str, durability: Any) -> None:
    with Saver(url) as saver:
        line_of("a").compile(checkpointer=saver).invoke({"log": ["before"]}, thread())

        def delete(_: Log) -> Any:
            saver.delete_thread("t")
            return {"log": ["late"]}

        graph = StateGraph(Log).add_node("a", delete).add_node("b", lambda _: {"log": ["later"]})
        graph.add_edge(START, "a").add_edge("a", "b")
        with pytest.raises(ThreadConflict, match="was deleted"):
            graph.compile(checkpointer=saver).invoke({"log": ["again"]}, thread(), durability=durability)
        assert saver.get_tuple(thread()) is None
        assert saver.sizes("t") == {}
    with sync.App(url, worker=False) as app:
        assert app._app.store.check() == []


@outlast.workflow
async def waits() -> None:
    await outlast.receive("go")


@outlast.step
async def invoke(url: str, id: str) -> Any:
    with Saver(url) as saver:
        return (await line_of("a").compile(checkpointer=saver).ainvoke({"log": []}, thread(id)))["log"]


@outlast.workflow
async def agent(url: str, id: str) -> Any:
    return await invoke(url, id)


def test_the_thread_of_a_run_is_closed_to_others_until_it_ends(url: str) -> None:
    with sync.App(url) as app, Saver(url) as saver:
        run = app.start(waits(), id="t")
        graph = line_of("a").compile(checkpointer=saver)
        with pytest.raises(ThreadOwned, match="belongs to the run of that id") as refused:
            graph.invoke({"log": []}, thread())
        assert refused.value.thread == "t"
        run.send("go")
        run.result()
        assert graph.invoke({"log": []}, thread()) == {"log": ["a"]}


def test_a_step_of_the_run_writes_to_its_thread(url: str) -> None:
    with sync.App(url) as app:
        assert app.start(agent(url, "t"), id="t").result() == ["a"]
        assert app.start(agent(url, "other"), id="another").result() == ["a"]


@outlast.step(timeout=60)
async def invoke_when_told(url: str, id: str) -> Any:
    HELD.set()
    await asyncio.to_thread(GO_ON.wait, 30)
    return await invoke.fn(url, id)


@outlast.workflow
async def held_agent(url: str, id: str) -> Any:
    return await invoke_when_told(url, id)


HELD, GO_ON = threading.Event(), threading.Event()


def test_a_step_whose_run_was_ended_by_force_writes_nothing(url: str) -> None:
    HELD.clear()
    GO_ON.clear()

    async def scene() -> None:
        async with App(url) as app:
            run = await app.start(held_agent(url, "t"), id="t")
            await asyncio.to_thread(HELD.wait, 30)
            await run.cancel(force=True)
            GO_ON.set()

    asyncio.run(scene())
    with Saver(url) as saver:
        assert saver.get_tuple(thread()) is None
