"""Which workflows (and steps, for runs of a single step) this process knows, by name.

Runs name their workflow by its short name, so that a script run as `__main__` and a worker that
imports it speak of the same thing, and moving a function to another module strands nothing. Where two
functions share a name, the place where the run's own was defined (`module:qualname`) decides.
"""

from __future__ import annotations

import inspect
import os
from types import FunctionType
from typing import Any

from outlast.core.definitions import Call, Step
from outlast.core.errors import WrongUse
from outlast.core.functions import Definition
from outlast.core.records import RunRow
from outlast.core.workflows import Workflow

STEP_PREFIX = "step:"
"""A run of a single step stands under its step's name with this before it: no workflow's name has a colon."""

_known: dict[str, dict[str, Definition[..., Any]]] = {}  # name of runs -> where defined -> what


def run_name(definition: Definition[..., Any]) -> str:
    """Return the name that runs of this workflow, or of this step alone, have in a store."""
    return f"{STEP_PREFIX}{definition.name}" if isinstance(definition, Step) else definition.name


def register(definition: Definition[..., Any]) -> None:
    """Make a step or workflow known. Defining the same function again replaces it (notebooks, reloads).

    Raises WrongUse where one execution of a file defines two under one name.
    """
    found = _known.setdefault(run_name(definition), {})
    load = _load_of(definition)
    for place, other in list(found.items()):
        _refuse_second_of_file(other, definition, load)
        if load is not other.load and place.partition(":")[0] == definition.definition.partition(":")[0]:
            del found[place]  # from before the module was loaded again
    known = found.get(definition.definition)
    if known is None or not _is_partial_of_same(known, definition):
        found[definition.definition] = definition
        definition.load = load
    elif isinstance(definition, Workflow):
        raise WrongUse(
            f"two workflows named {definition.name!r} are made of one function, and runs could not tell them apart; "
            "give one of them another name: @workflow(name=...)"
        )


def _refuse_second_of_file(known: Definition[..., Any], new: Definition[..., Any], load: object) -> None:
    """Refuse a second function of a file under the name of a first, which runs, or readers, would take for it.

    Functions made by functions, in a notebook or by a reload of the module come again and replace the first.
    """
    is_step = isinstance(new, Step)
    old_fn, new_fn = inspect.unwrap(known.plain), inspect.unwrap(new.plain)
    if not (isinstance(old_fn, FunctionType) and isinstance(new_fn, FunctionType)) or old_fn is new_fn:
        return
    if is_step and known.definition != new.definition:
        return  # steps may share a name: runs of a single step find theirs by its place
    if load is None or load is not known.load or "<locals>" in f"{old_fn.__qualname__} {new_fn.__qualname__}":
        return
    lines = [fn.__code__.co_firstlineno for fn in (old_fn, new_fn)]
    if lines[0] != lines[1]:
        raise WrongUse(
            f"two {new.noun}s named {new.name!r} are in {new_fn.__code__.co_filename}, at lines {lines[0]} "
            f"({old_fn.__qualname__}) and {lines[1]} ({new_fn.__qualname__}), and one would take the place of the "
            f"other; give one of them another name: @{new.noun}(name=...)"
        )


def _load_of(definition: Definition[..., Any]) -> object:
    """Return what stands for one execution of the file that a function is in; None where it is in no file."""
    fn = inspect.unwrap(definition.plain)
    if not isinstance(fn, FunctionType):
        return None
    names = fn.__globals__
    if os.path.basename(fn.__code__.co_filename) != os.path.basename(str(names.get("__file__", ""))):
        return None  # typed into a notebook or a shell
    return names.get("__spec__") or names["__file__"]  # a reload gives a module another spec


def shared_names() -> dict[str, list[str]]:
    """Return the names of several workflows, with the places of these; those made by functions do not count."""
    found = {}
    for name, by_place in _known.items():
        files = {
            getattr(getattr(inspect.unwrap(each.plain), "__code__", None), "co_filename", place): place
            for place, each in by_place.items()
            if isinstance(each, Workflow) and "<locals>" not in place
        }
        if len(files) > 1:
            found[name] = sorted(files.values())
    return found


def _is_partial_of_same(known: Definition[..., Any], other: Definition[..., Any]) -> bool:
    return known.fn is not other.fn and known.plain is other.plain


def check_call(call: object) -> None:
    """Raise WrongUse, with what to write instead, for what is not the call of a workflow or step."""
    if isinstance(call, Call):
        return
    if isinstance(call, Definition):
        dot_call = ".call" if isinstance(call, Step) and not call.is_async else ""
        hint = f"call it: app.start({call.name}{dot_call}(...))"
    elif callable(call) or inspect.iscoroutine(call):
        name = getattr(call, "__name__", "flow")
        hint = f"put @outlast.workflow above {name} and give app.start({name}(...)), without .fn"
        if inspect.iscoroutine(call):
            call.close()
    else:
        hint = "where that is what a sync step returned, it has run already: give app.start(a_step.call(...))"
    raise WrongUse(f"app.start takes the call of a workflow or step, such as flow(1), not {call!r}; {hint}")


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
