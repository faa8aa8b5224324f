"""Arguments and options that several verbs share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, TypeVar

import typer

from outlast.core.transitions import Reason, Status

T = TypeVar("T")

Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        "-u",
        metavar="URL",
        help="The store: sqlite:///agent.db or a path. Default: the environment's OUTLAST_URL, else ./outlast.db.",
    ),
]

AppName = Annotated[
    str | None,
    typer.Option(
        "--app",
        metavar="CODE:NAME",
        help="Your program's App, or the function that makes it: its codec and other settings. Default: OUTLAST_APP.",
    ),
]

Outbox = Annotated[
    list[str] | None,
    typer.Option(
        "--outbox",
        metavar="URL",
        help="Your database with an outbox; may be given again for more. Default: OUTLAST_OUTBOX.",
        envvar="OUTLAST_OUTBOX",
        show_envvar=False,
    ),
]

Json = Annotated[bool, typer.Option("--json", help="Write JSON, errors too.")]

RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.", show_default=False)]

StepName = Annotated[
    str,
    typer.Argument(
        metavar="STEP",
        help="The step as `outlast show` names it (main/charge#1), or its bare name where that is enough.",
        show_default=False,
    ),
]

Timeout = Annotated[
    float | None, typer.Option("--timeout", metavar="S", min=0.0, help="Wait at most so many seconds (exit code 124).")
]


def _among(words: Iterable[str]) -> Callable[[T], T]:
    """Return what refuses a word, or one of several, that is not among these."""
    known = [str(word) for word in words]

    def check(given: T) -> T:
        words = [given] if isinstance(given, str) else given if isinstance(given, list) else []
        for word in words:
            if word not in known:
                raise typer.BadParameter(f"{word!r} is none of {', '.join(known)}.")
        return given

    return check


Statuses = Annotated[
    list[str] | None,
    typer.Option("--status", "-s", callback=_among(Status), help="Only of this status; may be given again for more."),
]

ReasonName = Annotated[
    str | None, typer.Option("--reason", callback=_among(Reason), help="Only stuck for this reason.")
]

WorkflowName = Annotated[
    str | None, typer.Option("--workflow", "-w", help="Only of this workflow; step:NAME for runs of a step.")
]

Prefix = Annotated[str | None, typer.Option("--prefix", help="Only with ids that begin so.")]

VersionName = Annotated[
    str | None, typer.Option("--version", metavar="V", help="Only those that this version of the code ran last.")
]

SomeRun = Annotated[str | None, typer.Argument(metavar="[RUN]", help="One run, by its id.", show_default=False)]
