"""Rows of a database's tables and the structs they stand for.

The lists of columns are written out, in the order of the structs' fields; a
test holds the two together.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import astuple, replace

from outlast.core.errors import StoreError
from outlast.core.records import (
    ApprovalRow,
    Fork,
    InboxRow,
    Kind,
    Record,
    RunRow,
    Standing,
    WorkerRow,
    WorkerState,
)
from outlast.core.schedule_rows import ScheduleRow
from outlast.core.transitions import Reason, Status
from outlast.stores.verbs import StartRun

RUN_COLUMNS = (
    "pk, id, incarnation, workflow, definition, is_step, input, options, status, reason, detail, owner, claim, due, "
    "crashes, parent, parent_key, forks, created, started, ended, result, error, culprit, python, version, queue, "
    "queue_key, priority, dedup, debounce, "
    "turn, turned, held, cancelling, deadline, outlives"
)
NEW_RUN_COLUMNS = (  # without its input, which a store may keep elsewhere
    "id, incarnation, workflow, definition, is_step, options, status, owner, holder, claim, due, parent, parent_key, "
    "forks, created, started, python, version"
)
TERMS_COLUMNS = "queue, queue_key, priority, dedup, debounce"
"""What few runs have; the rows of all others are made without."""
RECORD_COLUMNS = "seq, kind, key, at, name, ok, args, value, attempt, effect, started, ended, due, cause, worker, note"
INBOX_COLUMNS = "id, run, kind, key, message_id, ok, value, created"
SOURCE_COLUMNS = "name, source, token, wrote, first, settled"
WORKER_COLUMNS = (
    "id, pid, host, boot, lock_path, lock_inode, state, started, beat, lease_until, left, version, python, serves"
)
APPROVAL_COLUMNS = (
    "pk, id, run, key, question, data, form, form_type, addressee, created, due, status, by, note, value, answered, "
    "ask, problem"
)

SCHEDULE_COLUMNS = (
    "name, spec, workflow, definition, is_step, input, next, anchor, created, revision, backlog, last, last_slot, "
    "started, skipped, missed"
)

Row = tuple[Any, ...]

_forks = msgspec.json.Decoder(tuple[Fork, ...])
_times = msgspec.json.Decoder(tuple[float, ...])
_names = msgspec.json.Decoder(tuple[str, ...])


def run_row(row: Row) -> RunRow:
    """Make a run of a row of RUN_COLUMNS."""
    run = RunRow(**dict(zip(RunRow.__struct_fields__, row, strict=True)))
    run.is_step = bool(run.is_step)
    run.outlives = bool(run.outlives)
    run.status = Status(run.status)
    run.reason = Reason(run.reason) if run.reason is not None else None
    run.forks = _decode_forks(str(run.forks))
    run.input = run.input or b""
    run.held = bool(run.held)
    return run


def as_started(run: RunRow, first: Row | None) -> RunRow:
    """Return a run with the incarnation and the call that it was started with; `first` is its row of `firsts`."""
    if first is None:
        return run
    incarnation, workflow, definition, given = first
    return replace(run, incarnation=incarnation, workflow=workflow, definition=definition, input=given or b"")


def listed_run(row: Row) -> RunRow:
    """Make a run for a listing, which has to show all rows: one that somebody has spoiled says so in `detail`."""
    try:
        return run_row(row)
    except (ValueError, TypeError, msgspec.MsgspecError) as error:
        named = dict(zip(("pk", "id", "incarnation", "workflow"), row, strict=False))
        why = f"this row of the table cannot be read: {error}"
        return RunRow(**named, status=Status.STUCK, reason=Reason.UNDECODABLE, detail=why)


def is_usual(run: RunRow) -> bool:
    """Tell whether NEW_RUN_COLUMNS hold all that is given with a new run: most have neither of the rare ones."""
    return run.deadline is None and not run.outlives


def new_run(verb: StartRun, now: float) -> Row:
    """Make the row of NEW_RUN_COLUMNS with which a run begins: claimed by a worker, or due."""
    run, by = verb.run, verb.claim_by
    due = None if by is not None else now if run.due is None else run.due
    state = ("running", by, by, 1, None) if by is not None else ("pending", None, "", 0, due)
    return (
        run.id,
        run.incarnation,
        run.workflow,
        run.definition,
        run.is_step,
        run.options,
        *state,
        run.parent,
        run.parent_key,
        encode_forks(run.forks),
        now,
        None if by is None else now,
        run.python,
        run.version,
    )


def terms(run: RunRow) -> Row:
    """Make the row of TERMS_COLUMNS; no value in it is true for a run that has none."""
    return (run.queue, run.queue_key, run.priority, run.dedup, run.debounce)


def started_run(verb: StartRun, pk: int, now: float) -> RunRow:
    """Return the run that the row of `new_run` stands for."""
    by = verb.claim_by
    state: dict[str, Any] = {"status": Status.PENDING, "owner": None, "claim": 0, "started": None}
    if by is not None:
        state = {"status": Status.RUNNING, "owner": by, "claim": 1, "started": now}
    due = None if by is not None else now if verb.run.due is None else verb.run.due
    fresh = {"reason": None, "detail": "", "crashes": 0, "ended": None, "result": None, "error": None, "culprit": ""}
    return replace(verb.run, pk=pk, due=due, created=now, **state, **fresh)


def record(row: Row) -> Record:
    """Make a record of a row of RECORD_COLUMNS."""
    seq, kind, key, at, name, ok, args, value, attempt, effect, started, ended, due, cause, worker, note = row
    return Record(
        seq=seq,
        kind=_kind(kind, f"record {seq}"),
        key=key,
        at=at,
        name=name,
        ok=bool(ok),
        args=args,
        value=value,
        attempt=attempt,
        effect=effect,
        started=started,
        ended=ended,
        due=due,
        cause=cause,
        worker=worker,
        note=note,
    )


def approval_row(row: Row) -> ApprovalRow:
    """Make an approval of a row of APPROVAL_COLUMNS."""
    approval = ApprovalRow(**dict(zip(ApprovalRow.__struct_fields__, row, strict=True)))
    approval.status = Standing(approval.status)
    return approval


def inbox_row(row: Row) -> InboxRow:
    """Make an inbox row of a row of INBOX_COLUMNS."""
    fields = dict(zip(InboxRow.__struct_fields__, row, strict=True))
    kind = _kind(fields["kind"], f"inbox row {fields['id']}")
    return InboxRow(**fields | {"kind": kind, "ok": bool(fields["ok"])})


def _kind(kind: str, what: str) -> Kind:
    try:
        return Kind(kind)
    except ValueError:
        raise StoreError(f"{what} is of a kind that this Outlast does not know: {kind!r}") from None


def worker_row(row: Row) -> WorkerRow:
    """Make a worker of a row of WORKER_COLUMNS."""
    fields = dict(zip(WorkerRow.__struct_fields__, row, strict=True))
    serves = _names.decode(fields["serves"]) if fields["serves"] is not None else None
    return WorkerRow(**fields | {"state": WorkerState(fields["state"]), "serves": serves})


def schedule_row(row: Row) -> ScheduleRow:
    """Make a schedule of a row of SCHEDULE_COLUMNS."""
    fields = dict(zip(ScheduleRow.__struct_fields__, row, strict=True))
    return ScheduleRow(
        **fields | {"is_step": bool(fields["is_step"]), "backlog": _times.decode(fields["backlog"])},
    )


def schedule_values(row: ScheduleRow) -> Row:
    """Return the values of SCHEDULE_COLUMNS."""
    values = astuple(row)
    place = ScheduleRow.__struct_fields__.index("backlog")
    return (*values[:place], msgspec.json.encode(row.backlog).decode(), *values[place + 1 :])


def encode_names(names: tuple[str, ...] | None) -> str | None:
    """Return the text of the column `serves`."""
    return None if names is None else msgspec.json.encode(names).decode()


def encode_forks(forks: tuple[Fork, ...]) -> str:
    """Return the text of the column `forks`."""
    return msgspec.json.encode(forks).decode() if forks else "[]"


def _decode_forks(text: str) -> tuple[Fork, ...]:
    return _forks.decode(text) if text != "[]" else ()
