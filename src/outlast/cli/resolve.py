"""`outlast resolve`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from outlast import App, DidNotHappen, Happened, StepInfo, WrongUse
from outlast.cli.arguments import json_value
from outlast.cli.opening import Where, with_store
from outlast.cli.options import AppName, Json, RunId, StepName, Url
from outlast.cli.output import print_json, print_line
from outlast.cli.people import this_user
from outlast.cli.waiting import tell_unless_ended


def resolve(
    run: RunId,
    step: StepName,
    happened: Annotated[
        str | None, typer.Option("--happened", metavar="JSON", help="It took place; JSON is what the step returns.")
    ] = None,
    did_not_happen: Annotated[
        bool, typer.Option("--did-not-happen", help="It did not take place and will not; the step is tried again.")
    ] = False,
    fail: Annotated[bool, typer.Option("--fail", help="Give up on it: it raises InDoubt in the workflow.")] = False,
    attempt: Annotated[
        int | None, typer.Option("--attempt", metavar="N", help="The attempt you looked at; any other is refused.")
    ] = None,
    by: Annotated[str | None, typer.Option("--by", metavar="NAME", help="Who decides. Default: you.")] = None,
    url: Url = None,
    app_name: AppName = None,
    as_json: Json = False,
) -> None:
    """Decide what became of a `once` step whose attempt ended without a certain outcome.

    Find out first whether it took place: `outlast show RUN` has its
    arguments and its idempotency key, and names a process that may still
    send something. A worker checks the decision: one that it cannot follow
    (a value that is not what the step returns; "it did not happen", said
    while it still could) leaves the run stuck, with the reason.

    \b
    outlast resolve order-55 main/charge#1 --happened '{"id": "ch_1"}'
    outlast resolve order-55 charge --did-not-happen --attempt 1
    outlast resolve order-55 charge --fail --by ann
    """
    if (happened is not None) + did_not_happen + fail != 1:
        raise WrongUse("say what became of the step: one of --happened JSON, --did-not-happen and --fail")
    decision: Any = "fail"
    if happened is not None:
        decision = Happened(json_value(happened, "--happened"))
    elif did_not_happen:
        decision = DidNotHappen()

    where = Where(url, app_name)

    async def decide(app: App) -> StepInfo | None:
        handle = await app.get(run)
        open_steps = [s for s in await handle.steps() if s.state == "in_doubt"]
        found = [s for s in open_steps if s.id == step] or [s for s in open_steps if s.name == step]
        shown = found[0] if len(found) == 1 else None
        number = attempt if attempt is not None or shown is None else shown.attempts
        await app.resolve(run, step, decision, attempt=number, by=by if by is not None else this_user())
        if not as_json:
            await tell_unless_ended(app, run, where)
        return shown

    decided = with_store(where, decide)
    key, number = (decided.id, decided.attempts) if decided is not None else (step, attempt)
    word = "happened" if happened is not None else "did not happen" if did_not_happen else "fails"
    if as_json:
        print_json({"id": run, "step": key, "attempt": number, "decision": word.replace(" ", "_")})
    else:
        which = f"attempt {number} of step {key} of run {run}"
        print_line(f"decided: {which} {word}; a worker checks that and goes on with the run")
