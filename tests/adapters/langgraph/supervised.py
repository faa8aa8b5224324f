"""A worker of a durable graph, for tests that kill it.

    python -m tests.adapters.langgraph.supervised URL LEDGER STOP_AT

It says so where it is to be killed, and waits there; else it works until it is killed.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from langgraph.graph import START, StateGraph
from langgraph.types import interrupt

from outlast import App
from outlast.langgraph import durable
from tests.adapters.langgraph.fan import wait_for_the_end
from tests.adapters.langgraph.graphs import Ledger, Log
from tests.adapters.langgraph.programs import say

LEDGER, STOP_AT = (*sys.argv[2:], "")[:2] if __name__ == "__main__" else ("", "")


def node(name: str) -> Any:
    def run(_: Log) -> Any:
        Ledger(LEDGER).note(name)
        if name == STOP_AT:
            wait_for_the_end(f"in {name}")
        return {"log": [name]}

    return run


def ask_twice(_: Log) -> Any:
    """Ask the same question twice, in one task."""
    first, second = interrupt("may I?"), interrupt("may I?")
    return {"log": [f"{first} {second}"]}


def graph() -> Any:
    """Return a graph of three nodes, between which people are asked, in a subgraph."""
    asking = StateGraph(Log).add_node("ask", ask_twice).add_edge(START, "ask").compile()
    made = StateGraph(Log).add_node("a", node("a")).add_node("asking", asking).add_node("b", node("b"))
    made.add_edge(START, "a").add_edge("a", "asking").add_edge("asking", "b")
    return made.compile(name="asks")


def line() -> Any:
    """Return a graph of four nodes in a row."""
    made = StateGraph(Log)
    before = START
    for name in "abcd":
        made.add_node(name, node(name))
        made.add_edge(before, name)
        before = name
    return made.compile(name="line")


line_agent, asking_agent = durable(line()), durable(graph())


async def main(url: str) -> None:
    """Work until killed."""
    async with App(url, park_after=0.05, lease=4):
        say("at work")
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
