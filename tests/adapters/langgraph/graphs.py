"""Graphs that tests run, and the ledger in which their nodes note that they ran."""

from __future__ import annotations

import operator
import os
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.graph import START, StateGraph


class Log(TypedDict):
    """What nodes have added, each its name."""

    log: Annotated[list[str], operator.add]


def thread(id: Any = "t", **more: Any) -> Any:
    """Return the config that names a thread."""
    return {"configurable": {"thread_id": id, **more}}


def line_of(*names: str) -> StateGraph[Any]:
    """Return a graph of nodes in a row, each of which adds its name."""
    graph = StateGraph(Log)
    before = START
    for name in names:
        graph.add_node(name, lambda state, name=name: {"log": [name]})
        graph.add_edge(before, name)
        before = name
    return graph


class Ledger:
    """A file beside the store, with a line for each node that ran, on the disk before the node goes on."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def note(self, name: str) -> None:
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(file, f"{name}\n".encode())
        os.fsync(file)
        os.close(file)

    def counts(self) -> Counter[str]:
        return Counter(self.path.read_text().split())
