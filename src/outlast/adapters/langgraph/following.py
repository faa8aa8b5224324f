"""Which checkpoints have to follow the head of their thread.

A graph reads a checkpoint, and puts others one after another, each with the one before as its parent. That is given in
the config, which the graph carries on from what it has read: so the id of a checkpoint that was read says how it was
read (`ReadId`), and comes back with the first that is put upon it.

- What was read as the latest has to be the head still when the first checkpoint is put upon it. If it is not, another
  writer has come between, and its turn would be lost.
- What was named, to go back in time or to branch off, may be followed by anybody.
- After that a graph goes on from what it has put itself, which has to be the head each time.
- A thread that was empty has to be empty still. Only subgraphs of a graph that goes back in time begin anew in the
  place of what is there.

What code puts that is no graph is not held to this: it says itself what follows what.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GRAPH = "__pregel_"
"""How the keys begin that a graph adds to the configs of its own, and to no other."""
GOES_BACK = "__pregel_replay_state"
"""The key, of these, that has a value where a graph goes back in time."""

OF_ONE_RUN = "__pregel_runtime"
"""The key, of these, whose value is the same object as long as a graph runs."""


class ReadId(str):
    """The id of a checkpoint that was read. `latest` tells whether it was read as the head of its thread."""

    __slots__ = ("latest",)
    latest: bool

    def __new__(cls, id: str, *, latest: bool) -> ReadId:
        """Make one of an id."""
        made = super().__new__(cls, id)
        made.latest = latest
        return made


def has_to_follow(configurable: Mapping[str, Any]) -> bool:
    """Tell whether what is put with this config has to follow the head."""
    parent = configurable.get("checkpoint_id")
    if isinstance(parent, ReadId):
        return parent.latest
    if not parent and configurable.get(GOES_BACK):
        return False
    return is_of_a_graph(configurable)


def is_of_a_graph(configurable: Mapping[str, Any]) -> bool:
    """Tell whether a graph that is running has made a config."""
    return any(key.startswith(GRAPH) for key in configurable)


def run_of(configurable: Mapping[str, Any]) -> object | None:
    """Return an object that belongs to one run of a graph; None where no graph is running."""
    return configurable.get(OF_ONE_RUN)
