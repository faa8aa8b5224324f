"""How code is found out that has lost its run: its context names none, and yet it belongs to a workflow body.

Outside of any run a step is the plain function. Code of a body that is called in a fresh context, or in a thread, has
no run in its context either, and must not be taken for it: what it does would not be recorded, and replay would do it
again.
"""

from __future__ import annotations

import threading
from asyncio import events

from outlast.core.effects import InBody
from outlast.core.errors import LostRun, WrongUse
from outlast.core.identity import here

_STARTED_BY = "_outlast_run"  # attribute of a thread that a body started: the run
_BODY_OF = "_outlast_body"  # attribute of the thread that a body runs in: the run


def mark_as_body(thread: threading.Thread, run_id: str, workflow: str) -> None:
    """Note in a thread that it runs a body and nothing else."""
    setattr(thread, _BODY_OF, f"{run_id} ({workflow})")


def is_thread_of_body() -> bool:
    """Tell whether this thread runs a body and nothing else."""
    return hasattr(threading.current_thread(), _BODY_OF)


def mark_if_started_by_a_body(thread: threading.Thread) -> None:
    """Note in a thread that is about to start which run's body it comes from, if it comes from one."""
    place = here.get()
    if type(place) is InBody:
        run = f"{place.ops.run_id} ({place.ops.workflow})"
    else:
        starter = threading.current_thread()
        run = getattr(starter, _BODY_OF, "") or getattr(starter, _STARTED_BY, "")
    if run:
        setattr(thread, _STARTED_BY, run)


def refuse_app() -> None:
    """Raise WrongUse where the caller is a workflow body: whatever it did with an App, replay would do again."""
    place = here.get()
    in_loop = getattr(events._get_running_loop(), "_outlast_run_loop", False)
    if type(place) is not InBody and not in_loop and not is_thread_of_body():
        return
    whose = f" (run {place.ops.run_id} of {place.ops.workflow})" if type(place) is InBody else ""
    raise WrongUse(
        f"an App cannot be used in a workflow body{whose}: replay would do the same again. To start a run from here, "
        "call the workflow: it becomes a child run (outlast.start does not wait for its end). Do all else that needs "
        "an App in a step"
    )


def refuse_lost(what: str) -> None:
    """Raise LostRun when the caller, whose context names no run, has lost one. `what` was called."""
    thread = threading.current_thread()
    if getattr(events._get_running_loop(), "_outlast_run_loop", False) or hasattr(thread, _BODY_OF):
        raise LostRun(
            f"{what} was called in a context that has lost its run; do not run workflow code in a fresh "
            "contextvars.Context"
        )
    run = getattr(thread, _STARTED_BY, "")
    if run:
        raise LostRun(
            f"{what} was called in a thread that the body of run {run} started, where nothing of it would be "
            "recorded; call it in the body itself, or do all the work of that thread in a step"
        )
