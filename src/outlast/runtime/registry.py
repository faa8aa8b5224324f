"""Which workflows (and steps, for runs of a single step) this process knows, by name.

Runs name their workflow by its short name, so that a script run as `__main__` and a worker that
imports it speak of the same thing, and moving a function to another module strands nothing. Where two
functions share a name, the place where the run's own was defined (`module:qualname`) decides.
"""

from __future__ import annotations

from typing import Any

from outlast.core.definitions import Definition, Step, Workflow
from outlast.core.errors import WrongUse
from outlast.core.records import RunRow

_known: dict[tuple[str, bool], dict[str, Definition[..., Any]]] = {}


def register(definition: Definition[..., Any]) -> None:
    """Make a step or workflow known. Defining the same function again replaces it (notebooks)."""
    _known.setdefault((definition.name, isinstance(definition, Step)), {})[definition.definition] = definition


def has_other_settings(step: Step[..., Any]) -> bool:
    """Tell whether this step differs from the one that a worker would find by its name."""
    known = _known.get((step.name, True), {}).get(step.definition)
    return isinstance(known, Step) and known.fn is step.fn and known.settings != step.settings


def names() -> tuple[str, ...]:
    """Return the names that runs may have here."""
    return tuple({name for name, _ in _known})


def find(row: RunRow) -> Definition[..., Any]:
    """Return what the run executes. Raises WrongUse when it is not known or ambiguous."""
    found = _known.get((row.workflow, row.is_step), {})
    definition = found.get(row.definition)
    if definition is not None:
        return definition
    noun = "step" if row.is_step else "workflow"
    if len(found) == 1:
        return next(iter(found.values()))
    if not found:
        raise WrongUse(f"run {row.id}: no {noun} named {row.workflow!r} is imported here (it was {row.definition})")
    raise WrongUse(
        f"run {row.id}: {noun} {row.workflow!r} was {row.definition}, and now {' and '.join(sorted(found))} share "
        "that name; "
        f"give one of them another: @{noun}(name=...)"
    )


def known(name: str) -> Workflow[..., Any] | Step[..., Any] | None:
    """Return the workflow, or else the step, of this name, if there is just one."""
    for is_step in (False, True):
        found = _known.get((name, is_step), {})
        if len(found) == 1:
            return next(iter(found.values()))  # type: ignore[return-value]
    return None
