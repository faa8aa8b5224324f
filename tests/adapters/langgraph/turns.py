"""A program that takes a turn on a thread, and is held in the midst of it until it is told to go on.

    python -m tests.adapters.langgraph.turns URL NAME DURABILITY

It prints `in` from its node, waits for a line, and prints at the end what the graph gave, or which error.
"""

from __future__ import annotations

import sys
from typing import Any

from langgraph.graph import START, StateGraph

from outlast.langgraph import Saver, ThreadConflict
from tests.adapters.langgraph.graphs import Log, thread
from tests.adapters.langgraph.programs import say


def main(url: str, name: str, durability: Any) -> None:
    """Take the turn."""

    def node(_: Log) -> Any:
        say("in")
        sys.stdin.readline()
        return {"log": [f"{name} did"]}

    graph = StateGraph(Log).add_node("node", node).add_edge(START, "node")
    with Saver(url) as saver:
        try:
            result = graph.compile(checkpointer=saver).invoke({"log": [name]}, thread(), durability=durability)
        except ThreadConflict as error:
            say(f"ThreadConflict: {error}")
        else:
            say(", ".join(result["log"]))


if __name__ == "__main__":
    main(*sys.argv[1:])
