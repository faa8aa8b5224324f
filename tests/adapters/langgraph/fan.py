"""A program that a test kills: a graph of ten nodes that finish at one moment, and an end.

    python -m tests.adapters.langgraph.fan URL DURABILITY async|threads LEDGER STOP_AT

It goes on with the thread where there is something to go on with. Where it is to be killed it says so, and waits for
that. Then it is run again with nothing to stop at, and prints what the graph gives.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any, NoReturn

from langgraph.graph import START, StateGraph

from outlast.langgraph import Saver
from tests.adapters.langgraph.graphs import Ledger, Log, thread
from tests.adapters.langgraph.programs import say

NODES = tuple(f"n{number}" for number in range(10))


def wait_for_the_end(where: str) -> NoReturn:
    """Say where the process is to be killed, and go no further."""
    say(where)
    threading.Event().wait()
    raise AssertionError("nobody killed this process")


def graph_of(ledger: Ledger, stop_at: str, *, in_threads: bool) -> StateGraph[Any]:
    """Return the graph. Its nodes wait for each other unless it goes on with fewer of them."""
    at_once = threading.Barrier(len(NODES)) if in_threads else asyncio.Barrier(len(NODES))

    def begin(name: str) -> None:
        ledger.note(name)
        if stop_at == name:
            wait_for_the_end(f"in {name}")

    def node(name: str) -> Any:
        def run(_: Log) -> Any:
            begin(name)
            if isinstance(at_once, threading.Barrier) and stop_at:
                at_once.wait()
            return {"log": [name]}

        async def arun(_: Log) -> Any:
            begin(name)
            if isinstance(at_once, asyncio.Barrier) and stop_at:
                await at_once.wait()
            return {"log": [name]}

        return run if in_threads else arun

    def end(_: Log) -> Any:
        begin("end")
        return {"log": ["end"]}

    graph = StateGraph(Log)
    for name in NODES:
        graph.add_node(name, node(name))
        graph.add_edge(START, name)
    graph.add_node("end", end)
    graph.add_edge(list(NODES), "end")
    return graph


def main(url: str, durability: Any, way: str, ledger: str, stop_at: str = "") -> None:
    """Run the graph, or go on with it."""
    with Saver(url) as saver:
        in_threads = way == "threads"
        graph = graph_of(Ledger(ledger), stop_at, in_threads=in_threads).compile(checkpointer=saver)
        config = {**thread(), "max_concurrency": 2 * len(NODES)}
        begun = saver.get_tuple(thread()) is not None
        given: Any = None if begun else {"log": ["input"]}
        if in_threads:
            result = graph.invoke(given, config, durability=durability)
        else:
            result = asyncio.run(graph.ainvoke(given, config, durability=durability))
    say(" ".join(sorted(result["log"])))


if __name__ == "__main__":
    main(*sys.argv[1:])
