"""Runs that were started as a workflow of one module and meet the workflow of that name of another.

Moving a function must strand nothing, so such a run is executed, and starting it again gives the same run. But the
other one may be someone else's, of the same name by accident. No program can tell, so a person is told, once.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from outlast.core.functions import Definition
from outlast.core.records import RunRow
from outlast.runtime.notices import Notices

_told: WeakKeyDictionary[Notices, set[tuple[str, str, str]]] = WeakKeyDictionary()


def tell_if_moved(notices: Notices, run: RunRow, definition: Definition[..., Any]) -> None:
    """Give the notice `run.moved`, once for each pair of places, when the run was started as code of another module."""
    here = definition.definition
    if not run.definition or is_same_module(run.definition, here):
        return
    told = _told.setdefault(notices, set())
    pair = (run.workflow, run.definition, here)
    if pair not in told:
        told.add(pair)
        notices("run.moved", run=run.id, workflow=run.workflow, started_as=run.definition, here=here)


def is_same_module(one: str, other: str) -> bool:
    """Tell whether two places (`module:qualname`) are of one module, which a script names without its package."""
    mine, its = one.partition(":")[0], other.partition(":")[0]
    return mine == its or mine.endswith(f".{its}") or its.endswith(f".{mine}")
