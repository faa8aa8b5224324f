"""What a person does to the course of runs: ends one by force, holds runs back, gives them another workflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.core.arguments import check_text
from outlast.core.certainty import open_intents
from outlast.core.errors import RunEnded, StoreUnavailable, WrongUse
from outlast.core.identity import check_run_id
from outlast.core.records import Kind, Record, RunRow
from outlast.core.transitions import ENDED
from outlast.runtime.children import DETACHED
from outlast.runtime.registry import STEP_PREFIX
from outlast.stores.course_verbs import Counted, Hold, Move, Terminate
from outlast.stores.protocol import RunFilter
from outlast.stores.rules import INDEXED_MAX_BYTES
from outlast.stores.verbs import Cancel, Done, Refused

if TYPE_CHECKING:
    from outlast.runtime.client import Client

TRIES = 20
AT_ONCE = 1_000  # runs that one transaction changes


async def terminate(app: Client, id: str) -> tuple[str, ...]:
    """End a run at once, and ask the children that it waited for to end. Return its `once` steps in doubt."""
    for _ in range(TRIES):
        row = await app._row(id)
        answer = await app.ask(Terminate(id=id, worker=row.owner))
        if isinstance(answer, Done):
            app._wake(answer)
            if app._worker is not None:
                app._worker.look_at_owned()
            records: list[Record] = await app._read(app.store.records, row.pk)
            await _cancel_children(app, row, records)
            return tuple(intent.key for intent in open_intents(records))
        if isinstance(answer, Refused) and answer.run is not None and answer.run.status in ENDED:
            raise RunEnded(f"run {id} ({row.workflow}) cannot be cancelled: {answer.why}")
    raise StoreUnavailable(f"run {id} went from worker to worker each time it was to be ended; try again")


async def _cancel_children(app: Client, row: RunRow, records: list[Record]) -> None:
    """As the run's own code would have: a child that was started to outlive it goes on."""
    goes_on = {r.key for r in records if r.kind is Kind.START and r.note == DETACHED}
    children: list[RunRow] = await app._read(lambda: app.store.runs(RunFilter(parent=row.pk), limit=10_000))
    for child in children:
        if child.status not in ENDED and child.parent_key not in goes_on:
            app._wake(await app.ask(Cancel(id=child.id, by=f"run {row.id}", parent=row.pk)))


async def hold(app: Client, held: bool, id: str | None, workflow: str | None, version: str | None) -> int:
    """Hold runs back, or give them free; return how many."""
    call = "app.hold" if held else "app.release"
    if id is None and workflow is None and version is None:
        what = "hold" if held else "release"
        raise WrongUse(
            f"this would {what} every run there is; say which: RUN, --workflow or --version (in Python: id=, workflow= "
            "or version=)"
        )
    for name, text in (("workflow", workflow), ("version", version)):
        if text is not None:
            check_text(call, name, text, INDEXED_MAX_BYTES)
    if id is not None:
        await app._row(check_run_id(id))
    return await _all(app, Hold(held=held, id=id, workflow=workflow, version=version, limit=AT_ONCE))


async def move(app: Client, workflow: str, to: str, id: str | None, version: str | None) -> int:
    """Have runs of one workflow executed by another; return how many."""
    for name, text in (("workflow", workflow), ("to", to)):
        check_text("app.move", name, text, INDEXED_MAX_BYTES, empty=False)
    if version is not None:
        check_text("app.move", "version", version, INDEXED_MAX_BYTES)
    if workflow == to or workflow.startswith(STEP_PREFIX) != to.startswith(STEP_PREFIX):
        raise WrongUse(
            f"runs of {workflow!r} cannot be moved to {to!r}: it must be another workflow, or for runs of a single "
            f"step another step ({STEP_PREFIX}NAME)"
        )
    if id is not None:
        await app._row(check_run_id(id))
    return await _all(app, Move(workflow=workflow, to=to, id=id, version=version, limit=AT_ONCE))


async def _all(app: Client, verb: Hold | Move) -> int:
    changed = 0
    while True:
        answer = await app.ask(verb)
        if not isinstance(answer, Counted):
            raise StoreUnavailable(f"{app.url}: {getattr(answer, 'why', answer)}")
        changed += answer.runs
        if answer.runs < verb.limit:
            app._wake(Done())
            return changed
