"""Random workflow bodies: each seed is one program over all that asyncio has to offer.

A program is a tree of nodes; each does something with tasks, locks, timeouts or steps, folds what it sees into a
number, and writes it down (`Play.trace`), so that two executions can be compared deed by deed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any

from tests.support import nodes_waiting  # noqa: F401 - its nodes are in the lists by that
from tests.support.nodes import BRANCHES, Play, any_node, fold, save, split


class Program:
    """The program of a seed. `only` limits its branches to some kinds, by name."""

    def __init__(self, seed: int, only: tuple[str, ...] = ()) -> None:
        self.seed = seed
        self._branches = [node for node in BRANCHES if not only or node.__name__ in only]

    def body(self, trace: list[Any]) -> Coroutine[Any, Any, int]:
        """Return the coroutine of one execution, which writes what it sees into `trace`."""
        return main(Play(trace, self._branches), Random(self.seed))


async def main(p: Play, rng: Random) -> int:
    total = 0
    try:
        for each in split(rng, rng.randint(2, 3)):
            total = fold(total, await any_node(p, each, 0))
    except asyncio.CancelledError:
        p.see("cancelled")
        await save("goodbye")
        raise
    return total
