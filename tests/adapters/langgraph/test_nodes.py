"""Steps that nodes and tasks call: a node that runs again is told what they gave, at every depth."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.types import RetryPolicy, Send, interrupt

import outlast
from outlast import App, step, workflow
from outlast.langgraph import durable
from tests.adapters.langgraph.graphs import Log

DONE: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    DONE.clear()


@step
async def act(what: str) -> str:
    DONE[what] += 1
    return f"{what} {DONE[what]}"


@step
def act_in_thread(what: str) -> str:
    DONE[what] += 1
    return f"{what} {DONE[what]}"


def wrapped(graph: Any, levels: int) -> Any:
    """Return a graph in so many others, each the only node of the next."""
    for n in range(levels):
        graph = StateGraph(Log).add_node(f"level{n}", graph).add_edge(START, f"level{n}").compile()
    return graph


async def to_the_end(app: App, agent: Any, input: Any, *, answers: int = 0, id: str = "r") -> Any:
    """Run a graph, and approve what it asks, so often."""
    run = await app.start(agent(input), id=id)
    seen: set[str] = set()
    while len(seen) < answers:
        assert str(await run.status()) in ("pending", "running", "waiting")
        for asked in await run.approvals():
            if asked.id not in seen:
                seen.add(asked.id)
                await app.approve(asked.id)
        await asyncio.sleep(0.01)
    return await run.result(30)


def app_at(folder: Path) -> App:
    return App(f"sqlite:///{folder / 'agent.db'}", park_after=0.01)


async def pays_and_asks(_: Log) -> Any:
    paid = await act("pay")
    return {"log": [paid, str(interrupt("go on?")), await act("after")]}


@pytest.mark.parametrize("levels", [0, 1, 2])
def test_a_node_that_asks_people_has_acted_once(tmp_path: Path, levels: int) -> None:
    graph = StateGraph(Log).add_node("n", pays_and_asks).add_edge(START, "n").compile()
    agent = durable(wrapped(graph, levels), name="asks")

    async def scene() -> Any:
        async with app_at(tmp_path) as app:
            return await to_the_end(app, agent, {"log": []}, answers=1)

    assert asyncio.run(scene()) == {"log": ["pay 1", "True", "after 1"]}
    assert DONE == {"pay": 1, "after": 1}


@pytest.mark.parametrize("levels", [0, 1, 2])
def test_each_of_many_sends_is_told_its_own_steps(tmp_path: Path, levels: int) -> None:
    """Siblings with equal input, all of which run again since one of them asks."""

    async def works(sent: Any) -> Any:
        done = [await act(f"work {sent['n']}"), await act(f"same {sent['n'] % 2}")]
        if sent["n"] == 3:
            done.append(str(interrupt("go on?")))
        return {"log": done}

    def fan_out(_: Log) -> list[Send]:
        return [Send("works", {"n": n}) for n in range(6)]

    graph = StateGraph(Log).add_node("works", works).add_conditional_edges(START, fan_out, ["works"])
    agent = durable(wrapped(graph.compile(), levels), name="fan")

    async def scene() -> Any:
        async with app_at(tmp_path) as app:
            return await to_the_end(app, agent, {"log": []}, answers=1)

    result = asyncio.run(scene())
    assert {**{f"work {n}": 1 for n in range(6)}, "same 0": 3, "same 1": 3} == DONE
    assert sorted(result["log"]) == sorted(
        [*(f"work {n} 1" for n in range(6)), *(f"same {n} {m}" for n in (0, 1) for m in (1, 2, 3)), "True"]
    )


def test_a_node_in_a_thread_calls_steps_too(tmp_path: Path) -> None:
    def asks(_: Log) -> Any:
        return {"log": [act_in_thread("pay"), str(interrupt("go on?"))]}

    agent = durable(StateGraph(Log).add_node("n", asks).add_edge(START, "n").compile(), name="thread")

    async def scene() -> Any:
        async with app_at(tmp_path) as app:
            return await to_the_end(app, agent, {"log": []}, answers=1)

    assert asyncio.run(scene()) == {"log": ["pay 1", "True"]}
    assert DONE == {"pay": 1}


def test_a_retry_policy_runs_a_node_again_and_its_steps_not(tmp_path: Path) -> None:
    async def flaky(_: Log) -> Any:
        paid = await act("pay")
        DONE["node"] += 1
        if DONE["node"] < 3:
            raise ConnectionError("try again")
        return {"log": [paid]}

    policy = RetryPolicy(initial_interval=0.01, max_attempts=3)
    graph = StateGraph(Log).add_node("n", flaky, retry_policy=policy).add_edge(START, "n")
    agent = durable(graph.compile(), name="flaky")

    async def scene() -> Any:
        async with app_at(tmp_path) as app:
            return await to_the_end(app, agent, {"log": []})

    assert asyncio.run(scene()) == {"log": ["pay 1"]}
    assert DONE == {"pay": 1, "node": 3}


def test_a_node_comes_round_again_and_its_steps_are_new(tmp_path: Path) -> None:
    async def turn(_: Log) -> Any:
        return {"log": [await act("turn")]}

    def go_on(state: Log) -> str:
        return "turn" if len(state["log"]) < 3 else END

    graph = StateGraph(Log).add_node("turn", turn).add_edge(START, "turn").add_conditional_edges("turn", go_on)
    agent = durable(graph.compile(), name="turns")

    async def scene() -> Any:
        async with app_at(tmp_path) as app:
            return await to_the_end(app, agent, {"log": []})

    assert asyncio.run(scene()) == {"log": ["turn 1", "turn 2", "turn 3"]}


@pytest.mark.filterwarnings("ignore:`durability` has no effect when no checkpointer is present")
@pytest.mark.parametrize("checkpointer", [None, False])
def test_a_graph_that_a_node_calls_twice_as_a_function_acts_twice(tmp_path: Path, checkpointer: Any) -> None:
    async def works(_: Log) -> Any:
        return {"log": [await act("work")]}

    inner = StateGraph(Log).add_node("works", works).add_edge(START, "works").compile(checkpointer=checkpointer)

    # LangGraph cannot run a graph without checkpoints with the durability of the run.
    settings: Any = {} if checkpointer is None else {"durability": "async"}

    async def calls(_: Log) -> Any:
        first = await inner.ainvoke({"log": []}, **settings)
        second = await inner.ainvoke({"log": []}, **settings)
        ended = await act("end")
        return {"log": [*first["log"], *second["log"], ended, str(interrupt("go on?"))]}

    agent = durable(StateGraph(Log).add_node("calls", calls).add_edge(START, "calls").compile(), name="calls")

    async def scene() -> Any:
        async with app_at(tmp_path) as app:
            return await to_the_end(app, agent, {"log": []}, answers=1)

    assert asyncio.run(scene()) == {"log": ["work 1", "work 2", "end 1", "True"]}
    assert DONE == {"work": 2, "end": 1}


@pytest.mark.parametrize("given", ["at compile time", "none"])
@pytest.mark.parametrize("kind", ["async", "threads"])
def test_tasks_of_the_functional_api_act_once(tmp_path: Path, kind: str, given: str) -> None:
    @task
    async def one(n: int) -> str:
        return f"{await act(f'one {n}')}/{await act('both')}"

    @task
    def one_in_thread(n: int) -> str:
        return f"{act_in_thread(f'one {n}')}/{act_in_thread('both')}"

    @task
    async def outer(n: int) -> str:
        return str(await one(n + 10))

    saver = InMemorySaver() if given == "at compile time" else None

    @entrypoint(checkpointer=saver)
    async def program(n: int) -> list[str]:
        chosen: Any = one if kind == "async" else one_in_thread
        parts = await asyncio.gather(*(chosen(i) for i in range(n)), outer(0))
        drawn = await act("body")
        return [*sorted(parts), drawn, str(interrupt("go on?"))]

    agent = durable(program, name="program")

    async def scene() -> Any:
        async with app_at(tmp_path) as app:
            return await to_the_end(app, agent, 3, answers=1)

    result = asyncio.run(scene())
    assert result[-2:] == ["body 1", "True"]
    assert DONE == {"one 0": 1, "one 1": 1, "one 2": 1, "one 10": 1, "both": 4, "body": 1}


def test_what_a_sibling_has_done_when_a_node_fails_is_not_done_again(tmp_path: Path) -> None:
    """The run is resumed, and both nodes run again: the one that failed, and the one that was cancelled by that."""
    acted = asyncio.Event()

    async def slow(_: Log) -> Any:
        done = await act("slow")
        acted.set()
        if DONE["fails"] < 2:
            await asyncio.Event().wait()
        return {"log": [done]}

    async def fails(_: Log) -> Any:
        await acted.wait()
        DONE["fails"] += 1
        if DONE["fails"] < 2:
            raise LookupError("not yet")
        return {"log": ["not failed"]}

    graph = StateGraph(Log).add_node("slow", slow).add_node("fails", fails)
    graph.add_edge(START, "slow").add_edge(START, "fails")
    agent = durable(graph.compile(), name="siblings")

    async def scene() -> Any:
        async with app_at(tmp_path) as app:
            run = await app.start(agent({"log": []}), id="r")
            with pytest.raises(LookupError):
                await run.result(30)
            await app.resume("r")
            return await run.result(30)

    assert sorted(asyncio.run(scene())["log"]) == ["not failed", "slow 1"]
    assert DONE == {"slow": 1, "fails": 2}


async def test_a_node_waits_for_messages_people_times_and_children(url: str) -> None:
    """A run that waits leaves memory each time, and the node begins again."""

    @workflow(name="child")
    async def child(n: int) -> int:
        return n + 1

    async def hear(_: Log) -> Any:
        return {"log": [await outlast.receive("word", type=str)]}

    async def ask(_: Log) -> Any:
        approval = await outlast.approve("ok?")
        await outlast.sleep_until(datetime.now(UTC) + timedelta(seconds=0.1))
        return {"log": [approval.note, str(await child(41))]}

    graph = StateGraph(Log).add_node("hear", hear).add_node("ask", ask).add_edge(START, "hear").add_edge("hear", "ask")
    agent = durable(graph.compile(name="waits"))
    async with App(url, park_after=0.01) as app:
        run = await app.start(agent({"log": []}), id="t")
        await run.send("word", "hello")
        while not (asked := await run.approvals()):  # noqa: ASYNC110 - the graph asks
            await asyncio.sleep(0.01)
        await app.approve(asked[0].id, note="fine")
        assert await run.result() == {"log": ["hello", "fine", "42"]}
