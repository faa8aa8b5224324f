"""Schedules that code declares: `@outlast.schedule`. The workers that import it put them in their stores."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from msgspec.structs import replace

from outlast.core.codec import Codec
from outlast.core.definitions import Call
from outlast.core.errors import WrongUse
from outlast.core.identity import check_run_id
from outlast.core.schedule_rows import ScheduleRow
from outlast.core.workflows import Workflow
from outlast.runtime.slots import CatchUp, Overlap, Spec, spec_of
from outlast.runtime.starting import row_of

W = TypeVar("W", bound=Workflow[[], Any])

LONGEST_NAME = 200  # the ids of its runs are its name and a time


@dataclass(frozen=True, slots=True)
class Declared:
    """A schedule as code declares it; `call` makes a call of its workflow."""

    name: str
    call: Callable[[], Call[Any]]
    spec: Spec


DECLARED: list[Declared] = []


def schedule(
    *,
    cron: str | None = None,
    every: float | dt.timedelta | None = None,
    timezone: str = "UTC",
    catch_up: CatchUp = "one",
    catch_up_limit: int = 100,
    grace: float = 60.0,
    overlap: Overlap = "skip",
    name: str | None = None,
) -> Callable[[W], W]:
    """Declare that a workflow without arguments is started again and again.

    Above `@outlast.workflow`. Each worker that imports the code puts the schedule in its store, under `name` (the
    workflow's unless given); the rest is as in `App.schedule`. Code that no longer declares it does not delete it:
    `outlast schedules delete NAME` does. Raises WrongUse for what makes no sense.
    """
    spec = spec_of(cron, every, timezone, catch_up, catch_up_limit, grace, overlap)

    def declare(workflow: W) -> W:
        given: object = workflow
        if not isinstance(given, Workflow):
            raise WrongUse(f"@outlast.schedule stands above @outlast.workflow, not above {given!r}")
        try:
            workflow.check_arguments((), {})
        except TypeError as error:
            raise WrongUse(
                f"@outlast.schedule starts its workflow without arguments ({error}); with some, write: "
                f"await app.schedule(name, {workflow.name}(...), ...)"
            ) from None
        DECLARED.append(Declared(check_schedule_name(workflow.name if name is None else name), workflow, spec))
        return workflow

    return declare


def check_schedule_name(name: str) -> str:
    """Return the name when it can be a schedule's. Raises WrongUse."""
    check_run_id(name, "a schedule's name")
    if len(name) > LONGEST_NAME:
        raise WrongUse(f"a schedule's name has at most {LONGEST_NAME} characters; this one has {len(name)}: {name!r}")
    return name


def row_of_schedule(name: str, call: Call[Any], spec: Spec, codec: Codec, now: float) -> ScheduleRow:
    """Return a schedule that begins now. Raises WrongUse, EncodingError."""
    if isinstance(call, Call):
        call.take()  # whatever becomes of it here, it was not forgotten
    run = row_of(call, None, codec, lambda: now, version="")
    for term, given in (
        ("timeout", run.deadline),
        ("delay", run.due),
        ("dedup", run.dedup),
        ("debounce", run.debounce),
    ):
        if given:
            raise WrongUse(
                f"schedule {name}: its runs have no {term}=; a limit of time is set in the workflow, with "
                "asyncio.timeout, and what becomes of slots that overlap by overlap="
            )
    spec = replace(spec, queue=run.queue, queue_key=run.queue_key, priority=run.priority, options=run.options)
    return ScheduleRow(
        name=check_schedule_name(name),
        spec=spec.encoded(),
        workflow=run.workflow,
        definition=run.definition,
        is_step=run.is_step,
        input=run.input,
        next=spec.first(now, now),
        anchor=now,
    )
