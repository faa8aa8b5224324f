"""What a run of a graph is given beside its input, as a call of the graph is given it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphRecursionError
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import interrupt

from outlast import App, WrongUse
from outlast.langgraph import durable
from tests.adapters.langgraph.graphs import Log, line_of


@dataclass
class Desk:
    """Who is served, and in which words."""

    customer: str
    polite: bool = True


def greet(state: Log, config: RunnableConfig, runtime: Runtime[Desk]) -> Any:
    greeting = "dear" if runtime.context.polite else "hey"
    return {"log": [f"{greeting} {runtime.context.customer} in {config['configurable']['city']} {config['tags']}"]}


def asking(state: Log, config: RunnableConfig, runtime: Runtime[Desk]) -> Any:
    return {"log": [f"{interrupt('go on?')} {runtime.context.customer} {config['configurable']['city']}"]}


GRAPH = StateGraph(Log, context_schema=Desk).add_node("greet", greet).add_node("asking", asking)
GRAPH.add_edge(START, "greet").add_edge("greet", "asking")
desk = durable(GRAPH.compile(name="desk"))


@pytest.mark.parametrize("context", [{"customer": "ann"}, Desk("ann")])
async def test_config_and_context_are_kept_with_the_run_for_whoever_goes_on(tmp_path: Path, context: Any) -> None:
    config: RunnableConfig = {"configurable": {"city": "Rome"}, "tags": ["vip"], "metadata": {"team": "desk"}}
    url = f"sqlite:///{tmp_path}/agent.db"
    async with App(url, park_after=0.01) as app:
        run = await app.start(desk({"log": []}, config, context), id="t")
        while not (asked := await run.approvals()):
            pass
    async with App(url) as app:  # what it was given is not in this program's memory alone
        await app.approve(asked[0].id)
        result = await (await app.get("t")).result()
    assert result == {"log": ["dear ann in Rome ['vip']", "True ann Rome"]}


async def test_the_recursion_limit_of_a_call_holds(tmp_path: Path) -> None:
    short = durable(line_of("a", "b", "c").compile(name="short"))
    async with App(f"sqlite:///{tmp_path}/agent.db") as app:
        run = await app.start(short({"log": []}, {"recursion_limit": 2}), id="t")
        with pytest.raises(GraphRecursionError, match="Recursion limit of 2"):
            await run.result()


async def test_two_runs_each_have_their_own_config(tmp_path: Path) -> None:
    def name(state: Log, config: RunnableConfig) -> Any:
        return {"log": [config["configurable"]["name"]]}

    named = durable(StateGraph(Log).add_node("name", name).add_edge(START, "name").compile(name="named"))
    async with App(f"sqlite:///{tmp_path}/agent.db") as app:
        runs = [await app.start(named({"log": []}, {"configurable": {"name": who}}), id=who) for who in ("a", "b")]
        assert [(await run.result())["log"] for run in runs] == [["a"], ["b"]]


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"callbacks": []}, "graph desk: a run's config cannot have callbacks: they are objects of this process"),
        ({"run_id": "x"}, "cannot have run_id: the run has an id"),
        ({"configurable": {"thread_id": "x"}}, "cannot have thread_id: the thread of a run has the run's id"),
        ({"configurable": {"checkpoint_id": "x"}}, "cannot have checkpoint_id"),
    ],
)
def test_a_config_that_a_run_cannot_keep_is_refused_when_it_is_called(config: Any, reason: str) -> None:
    with pytest.raises(WrongUse, match=reason):
        desk({"log": []}, config)
