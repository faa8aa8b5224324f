"""The outbox: runs that are to be started, noted down in the user's own transaction, and read by who starts them.

A row is there if and only if the transaction was committed. Who relays it starts the run, and deletes the row then. A
crash between the two repeats a start, which finds the run of that incarnation. Readers take no locks, so that one which
is frozen holds up nobody: two that relay the same row repeat a start, too.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import msgspec

from outlast.core.errors import StoreError
from outlast.core.records import RunRow
from outlast.stores.databases import faults
from outlast.stores.databases.source import Source, Transaction, begun
from outlast.stores.databases.tables import OUTBOX

MOST_ROWS = 100
START = "start"

INSERT = "INSERT INTO outlast_outbox (kind, run_id, details, payload) VALUES (:kind, :run_id, :details, :payload)"
READ = (
    "SELECT n, run_id, details, payload FROM outlast_outbox WHERE kind = :kind AND refused IS NULL ORDER BY n "
    f"LIMIT {MOST_ROWS}"
)
COUNT = "SELECT count(*), count(refused) FROM outlast_outbox"
READ_REFUSED = (
    f"SELECT n, run_id, refused, created FROM outlast_outbox WHERE refused IS NOT NULL ORDER BY n LIMIT {MOST_ROWS}"
)
DELETE = "DELETE FROM outlast_outbox WHERE n = :n"
REFUSE = "UPDATE outlast_outbox SET refused = :why WHERE n = :n"


class Details(msgspec.Struct, kw_only=True):
    """What is to be known of a run beside its id and its arguments, as JSON."""

    incarnation: str
    workflow: str
    definition: str
    is_step: bool
    queue: str = ""
    queue_key: str = ""
    priority: int = 0
    due: float | None = None


class Posted(msgspec.Struct, kw_only=True):
    """A row of the outbox: the run that it starts, or why it cannot be read."""

    n: int
    run_id: str
    run: RunRow | None
    why: str = ""


class RefusedRow(msgspec.Struct, kw_only=True):
    """A row that was refused, and why; `noted` is when it was written (seconds since 1970), None where nobody knows."""

    n: int
    run_id: str
    why: str
    noted: float | None

    @property
    def try_again(self) -> str:
        """What has it tried again."""
        return f"UPDATE outlast_outbox SET refused = NULL WHERE n = {self.n}"

    @property
    def give_up(self) -> str:
        """What takes it away."""
        return f"DELETE FROM outlast_outbox WHERE n = {self.n}"


class Standing(msgspec.Struct, kw_only=True):
    """How many rows of an outbox wait to be relayed, how many were refused, and the oldest of these."""

    waiting: int = 0
    refused: int = 0
    rows: list[RefusedRow] = []


async def post(transaction: Transaction, run: RunRow) -> None:
    """Note a run to be started, in an open transaction. Raises StoreError where there is no table for it."""
    details = Details(
        incarnation=run.incarnation,
        workflow=run.workflow,
        definition=run.definition,
        is_step=run.is_step,
        queue=run.queue,
        queue_key=run.queue_key,
        priority=run.priority,
        due=run.due,
    )
    said = msgspec.json.encode(details).decode()
    values = {"kind": START, "run_id": run.id, "details": said, "payload": run.input}
    try:
        await transaction.execute(INSERT, values)
    except Exception as error:
        if not faults.is_no_table(error):
            raise
        raise StoreError(
            f"run {run.id} cannot be noted: table {OUTBOX.name} is not in this database. An App with outbox= creates "
            f"it when it is opened; or run: {OUTBOX.ddl(transaction.dialect)}"
        ) from error


async def posted(source: Source) -> list[Posted]:
    """Return the oldest rows that were not refused."""
    await OUTBOX.ensure(source)
    async with begun(source, write=False) as transaction:
        rows = await transaction.execute(READ, {"kind": START})
    return [_posted(*row) for row in rows]


def _posted(n: int, run_id: str, details: str, payload: Any) -> Posted:
    try:
        said = msgspec.json.decode(details, type=Details)
    except msgspec.MsgspecError as error:
        return Posted(n=n, run_id=run_id, run=None, why=f"its details cannot be read: {error}")
    if not isinstance(payload, (bytes, memoryview)):  # SQLite keeps in a column whatever is put there
        return Posted(n=n, run_id=run_id, run=None, why=f"its payload is no bytes but {type(payload).__name__}")
    run = RunRow(
        pk=0,
        id=run_id,
        incarnation=said.incarnation,
        workflow=said.workflow,
        definition=said.definition,
        is_step=said.is_step,
        input=bytes(payload),
        queue=said.queue,
        queue_key=said.queue_key,
        priority=said.priority,
        due=said.due,
    )
    return Posted(n=n, run_id=run_id, run=run)


async def settle(source: Source, done: Sequence[int], refused: Sequence[tuple[int, str]]) -> None:
    """Delete the rows whose runs are started, and say in the others why theirs cannot be."""
    async with begun(source) as transaction:
        for n in done:
            await transaction.execute(DELETE, {"n": n})
        for n, why in refused:
            await transaction.execute(REFUSE, {"n": n, "why": why})
        await transaction.commit()


async def standing(source: Source) -> Standing:
    """Return how an outbox stands. It only reads: without a table it is empty."""
    try:
        async with begun(source, write=False) as transaction:
            ((rows, refused),) = await transaction.execute(COUNT)
            listed = await transaction.execute(READ_REFUSED) if refused else ()
    except Exception as error:
        if not faults.is_no_table(error):
            raise
        return Standing()
    found = [RefusedRow(n=n, run_id=str(run), why=str(why), noted=_moment(at)) for n, run, why, at in listed]
    return Standing(waiting=rows - refused, refused=refused, rows=found)


def _moment(created: Any) -> float | None:
    """Return a time as databases give it: SQLite as text, of UTC."""
    try:
        at = created if isinstance(created, dt.datetime) else dt.datetime.fromisoformat(created)
    except (TypeError, ValueError):
        return None
    return (at if at.tzinfo is not None else at.replace(tzinfo=dt.UTC)).timestamp()
