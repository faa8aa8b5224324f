"""Approvals on a PostgreSQL store."""

from __future__ import annotations

from typing import Any

from outlast.core.records import ApprovalRow, InboxRow, Kind, Standing
from outlast.stores.approval_verbs import AnswerApproval, OpenApproval, ReopenApproval
from outlast.stores.postgres.batch import Batch
from outlast.stores.postgres.connections import Db
from outlast.stores.postgres.inboxes import LIVE
from outlast.stores.protocol import ApprovalFilter
from outlast.stores.rows import APPROVAL_COLUMNS, approval_row
from outlast.stores.rules import Hold, answer_id, approval_box, as_it_stands, cannot_answer
from outlast.stores.verbs import Answer, Done, Fenced, Refused

OPEN = (
    "INSERT INTO approvals (id, run, key, question, data, form, form_type, addressee, created, due, status) "
    "SELECT m.*, 'open' FROM (VALUES (%s, %s::bigint, %s, %s, %s::bytea, %s::bytea, %s, %s, %s::float8, %s::float8)) "
    "AS m (id) WHERE NOT EXISTS (SELECT 1 FROM approvals AS known WHERE known.id = m.id)"
)
ANSWER = (
    "UPDATE approvals SET status = %s, by = %s, note = %s, value = %s, answered = %s, ask = %s, problem = '' "
    "WHERE id = %s"
)
REOPEN = (
    "UPDATE approvals SET status = 'open', by = '', note = '', value = NULL, answered = NULL, problem = %s "
    "WHERE id = %s"
)

STANDS = {
    Standing.OPEN: "status = 'open' AND (due IS NULL OR due > %s)",  # word by word what the partial index asks for
    Standing.EXPIRED: "(status = 'expired' OR status = 'open' AND due <= %s)",
}
SETTLED = "status = '{}'"


def open_approval(b: Batch, verb: OpenApproval) -> Answer:
    """Ask people."""
    new = verb.approval
    held = b.hold(new.run, verb.worker, verb.claim)
    if isinstance(held, Fenced):
        return held
    if held is Hold.PAST:
        known = b.rows("SELECT 1 FROM approvals WHERE id = %s", new.id)
        return Done() if known else b.fenced(new.run, verb.worker, verb.claim)
    b.run_sql(
        OPEN,
        new.id,
        new.run,
        new.key,
        new.question,
        new.data,
        new.form,
        new.form_type,
        new.addressee,
        b.now,
        new.due,
    )
    b.run_sql(f"{REOPEN} AND status = 'withdrawn'", "", new.id)
    return Done()


def answer_approval(b: Batch, verb: AnswerApproval) -> Answer:
    """Answer, once."""
    b.lock_runs([verb.run])  # whoever answers holds it, and whoever ends it
    found = b.row(f"SELECT {APPROVAL_COLUMNS} FROM approvals WHERE id = %s AND run = %s", verb.id, verb.run)
    run = b.row("SELECT status FROM runs WHERE pk = %s", verb.run)
    if found is None or run is None:
        return Refused(f"there is no approval {verb.id!r}")
    approval, status = approval_row(found), run[0]
    woken = (verb.run,) if status in LIVE else ()
    if approval.ask == verb.ask and approval.status is verb.status:
        return Done(woken)
    if why := cannot_answer(approval, verb.status, status, b.now):
        return Refused(why, b.run(verb.run))
    b.run_sql(ANSWER, verb.status.value, verb.by, verb.note, verb.value, b.now, verb.ask, verb.id)
    if verb.status is Standing.WITHDRAWN:
        return Done()
    b.put(
        InboxRow(
            id=0,
            run=verb.run,
            kind=Kind.MESSAGE,
            key=approval_box(verb.id),
            message_id=answer_id(verb.id, verb.ask),
            ok=verb.status is not Standing.EXPIRED,
            value=verb.message,
        )
    )
    return Done(woken)


def reopen_approval(b: Batch, verb: ReopenApproval) -> Answer:
    """Take an answer back."""
    held = b.hold(verb.run, verb.worker, verb.claim)
    if isinstance(held, Fenced):
        return held
    b.lock_runs([verb.run])
    if b.rows("SELECT 1 FROM inbox WHERE id = %s AND run = %s", verb.consumes, verb.run):
        if held is Hold.PAST:
            return b.fenced(verb.run, verb.worker, verb.claim)
        b.deliver_rows(verb.run, (verb.consumes,))
        b.run_sql(REOPEN, verb.problem, verb.id)
    return Done()


def approvals(db: Db, wanted: ApprovalFilter, limit: int, after: int, now: float) -> list[ApprovalRow]:
    """Return approvals as they stand, oldest first."""
    values: list[Any] = [after]
    sql = f"SELECT {APPROVAL_COLUMNS} FROM approvals WHERE pk > %s"
    for column in ("id", "run", "addressee"):
        value = getattr(wanted, column)
        if value is not None:
            sql += f" AND {column} = %s"
            values.append(value)
    if wanted.status is not None:
        sql += f" AND {STANDS.get(wanted.status, SETTLED.format(wanted.status.value))}"
        values += [now] if wanted.status in STANDS else []
    rows = db.execute(f"{sql} ORDER BY pk LIMIT %s", (*values, max(limit, 0)), binary=True)
    return [as_it_stands(approval_row(row), now) for row in rows.fetchall()]
