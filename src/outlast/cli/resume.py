"""`outlast resume`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from outlast.cli.exits import ExitCode, exit_code_of
from outlast.cli.failures import Told, tell
from outlast.cli.opening import Where, with_store
from outlast.cli.options import AppName, Json, Prefix, ReasonName, Statuses, Url, WorkflowName
from outlast.cli.output import print_json, print_line, print_note
from outlast.cli.waiting import tell_unless_ended
from outlast.core.errors import OutlastError, StoreError, WrongUse
from outlast.runtime.app import App

PAGE = 200
RESUMABLE = ("failed", "cancelled", "stuck")


@dataclass(frozen=True, slots=True)
class Filters:
    """Which runs `--all` means."""

    status: list[str] | None
    reason: str | None
    workflow: str | None
    prefix: str | None

    def any(self) -> bool:
        """Tell whether one was given."""
        return any(each is not None for each in (self.status or None, self.reason, self.workflow, self.prefix))

    def statuses(self) -> list[str] | None:
        """Return the statuses to look for. Cancelled runs were ended by somebody, so they are to be asked for."""
        if self.status:
            return self.status
        return None if self.reason is not None else ["failed", "stuck"]


def resume(
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="RUN...", help="The runs' ids.", show_default=False)
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="All failed and stuck runs; the options below choose among them.")
    ] = False,
    status: Statuses = None,
    reason: ReasonName = None,
    workflow: WorkflowName = None,
    prefix: Prefix = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", metavar="N", help="Their budget from now on, what is spent included.")
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option("--max-cost", metavar="N", help="The same, of what models cost.")
    ] = None,
    url: Url = None,
    app_name: AppName = None,
    as_json: Json = False,
) -> None:
    """Take a failed, cancelled or stuck run up again, or many.

    What is recorded stays and is not done again: only the end is dropped,
    the failed step that caused it, which is then tried anew, and what came
    of that failure. Where the workflow's own code raised the error, it
    comes again until that code is changed. Where an effect came of the
    failure or of the cancellation it is refused; see `outlast fork`. A run
    that is in doubt needs a decision instead; see `outlast resolve`.

    Of several, each is told, and those that are refused do not keep the
    others from being taken up; the exit code is that of a refusal then.
    --all leaves cancelled runs alone unless --status cancelled is given.

    \b
    outlast resume order-55
    outlast resume order-55 order-56
    outlast resume --all --reason crash_loop
    """
    filters = Filters(status, reason, workflow, prefix)
    if bool(runs) == every:
        raise WrongUse("say which runs: outlast resume RUN..., or --all with or without --status, --reason and so on")
    if filters.any() and not every:
        raise WrongUse("--status, --reason, --workflow and --prefix choose among --all, and ids were given")
    if wrong := set(status or ()) - set(RESUMABLE):
        raise WrongUse(f"--status {min(wrong)}: only {', '.join(RESUMABLE)} runs can be taken up again")
    where, budget = Where(url, app_name), {"max_tokens": max_tokens, "max_cost": max_cost}
    if runs is not None and len(runs) == 1:
        told = None if as_json else where
        _print_taken_up(with_store(where, lambda app: _resume(app, runs[0], budget, told)), as_json=as_json)
        return

    async def take_up(app: App) -> list[Outcome]:
        chosen = list(dict.fromkeys(runs or ())) if not every else await _chosen(app, filters)
        return [await _tried(app, each, budget, as_json=as_json) for each in chosen]

    outcomes = with_store(where, take_up)
    if as_json:
        print_json([each.shown for each in outcomes])
    elif not outcomes:
        print_note("no such run is there to be taken up")
    codes = {exit_code_of(each.error) for each in outcomes if each.error is not None}
    if codes:
        raise Told(min(codes, default=ExitCode.OK))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one of several runs."""

    shown: dict[str, Any]
    error: OutlastError | None = None


async def _chosen(app: App, filters: Filters) -> list[str]:
    """Return ids, newest first: so a child is taken up before its parent, which would end the same way again."""
    ids: list[str] = []
    while True:
        page = await app.runs(
            status=filters.statuses(), reason=filters.reason, workflow=filters.workflow, id_prefix=filters.prefix,
            limit=PAGE, before=ids[-1] if ids else None,
        )  # fmt: skip
        ids += [run.id for run in page]
        if len(page) < PAGE:
            return ids


async def _tried(app: App, id: str, budget: dict[str, Any], *, as_json: bool) -> Outcome:
    try:
        taken_up = await _resume(app, id, budget)
    except StoreError:
        raise
    except OutlastError as error:
        if not as_json:
            tell(str(error), type(error).__name__, as_json=False)
        return Outcome({"id": id, "error": str(error), "type": type(error).__name__}, error)
    if not as_json:
        _print_taken_up(taken_up, as_json=False)
    return Outcome(taken_up)


async def _resume(app: App, id: str, budget: dict[str, Any], where: Where | None = None) -> dict[str, Any]:
    """Take a run up again; with `where`, say beside the output if nobody is there for it."""
    run = await app.resume(id, **budget)
    if where is not None:
        await tell_unless_ended(app, id, where)
    return {"id": run.id, "workflow": run.workflow, "status": "pending"}


def _print_taken_up(run: dict[str, Any], *, as_json: bool) -> None:
    """Say that a run was taken up again."""
    if as_json:
        print_json(run)
    else:
        print_line(f"run {run['id']} is pending again; a worker takes it up")
