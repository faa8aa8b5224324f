"""Which workflows (and steps, for runs of a single step) this process knows, by name.

Runs name their workflow by its short name, so that a script run as `__main__` and a worker that
imports it speak of the same thing, and moving a function to another module strands nothing. Where two
functions share a name, the place where the run's own was defined (`module:qualname`) decides.
"""

from __future__ import annotations

from typing import Any

from outlast.core.definitions import Step, Workflow
from outlast.core.errors import WrongUse
from outlast.core.functions import Definition
from outlast.core.records import RunRow

STEP_PREFIX = "step:"
"""A run of a single step stands under its step's name with this before it: no workflow's name has a colon."""

_known: dict[str, dict[str, Definition[..., Any]]] = {}  # name of runs -> where defined -> what


def run_name(definition: Definition[..., Any]) -> str:
    """Return the name that runs of this workflow, or of this step alone, have in a store."""
    return f"{STEP_PREFIX}{definition.name}" if isinstance(definition, Step) else definition.name


def register(definition: Definition[..., Any]) -> None:
    """Make a step or workflow known. Defining the same function again replaces it (notebooks)."""
    found = _known.setdefault(run_name(definition), {})
    known = found.get(definition.definition)
    if known is None or not _is_partial_of_same(known, definition):
        found[definition.definition] = definition
    elif isinstance(definition, Workflow):
        raise WrongUse(
            f"two workflows named {definition.name!r} are made of one function, and runs could not tell them apart; "
            "give one of them another name: @workflow(name=...)"
        )


def _is_partial_of_same(known: Definition[..., Any], other: Definition[..., Any]) -> bool:
    return known.fn is not other.fn and known.plain is other.plain


def check_run_of(step: Step[..., Any]) -> None:
    """Refuse a run of a single step that another worker, which finds the step by its name, would execute otherwise.

    Raises WrongUse.
    """
    if step.has_self:
        raise WrongUse(
            f"step {step.name} is a method, and its object would be missing where its run is taken over; "
            "give app.start the call of a function, or call the method in a workflow"
        )
    known = _known.get(run_name(step), {}).get(step.definition)
    if known is not None and _is_partial_of_same(known, step):
        raise WrongUse(
            f"two steps named {step.name!r} are made of one function, and runs could not tell them apart; "
            "give one of them another name: @step(name=...)"
        )
    if isinstance(known, Step) and known.fn is step.fn and known.settings != step.settings:
        raise WrongUse(
            f"step {step.name} was given options for a run of its own; whichever worker takes the run "
            f"would not know them. Put them in @step, or call {step.name} with them in a workflow"
        )


def names() -> tuple[str, ...]:
    """Return the names that runs may have here."""
    return tuple(_known)


def knows(name: str) -> bool:
    """Tell whether runs of this name can be executed here."""
    return name in _known


def find(row: RunRow) -> Definition[..., Any]:
    """Return what the run executes. Raises WrongUse when it is not known or ambiguous."""
    found = _known.get(row.workflow, {})
    definition = found.get(row.definition)
    if definition is not None:
        return definition
    if len(found) == 1:
        return next(iter(found.values()))
    noun = "step" if row.is_step else "workflow"
    if not found:
        raise WrongUse(f"run {row.id}: no {noun} named {row.workflow!r} is imported here (it was {row.definition})")
    raise WrongUse(
        f"run {row.id}: {noun} {row.workflow!r} was {row.definition}, and now {' and '.join(sorted(found))} share "
        f"that name; give one of them another: @{noun}(name=...)"
    )


def known(name: str) -> Definition[..., Any] | None:
    """Return what runs of this name execute, if there is just one."""
    found = _known.get(name, {})
    return next(iter(found.values())) if len(found) == 1 else None
