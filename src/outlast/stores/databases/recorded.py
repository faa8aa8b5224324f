"""A step whose rows and whose record commit in one transaction of the user's database.

In one transaction: look for the step's key, call its function, insert the key with the result, commit. The key is the
table's primary key, so of all who try, dead, frozen or alive, one commits; all others are rolled back and get its
result. Nobody waits for a lock of Outlast's, so one that is frozen holds up only who needs the rows it has written.

**Errors.** Whatever fails, another one may have committed meanwhile (and may be the reason for it), so the key is
looked for once more on another connection. When it is there, its result is the step's. When a COMMIT was on its way as
the connection broke, only that look can tell what became of it: it is made until it is answered, and where the key is
not there, all is done anew. A transaction that met another one is tried again; any other error is the step's.

**Forgetting.** A key may go when nobody can ask for it, or insert it, any more. Its run has succeeded: such a run is
never taken up again. And it is older than any attempt can be that still commits (`check` sees to that, after the
insert and before the COMMIT): one that was frozen before its insert is refused then, and one that was frozen after it
holds the key, so that no other can have committed it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from outlast.core.errors import WrongUse
from outlast.stores.databases import faults
from outlast.stores.databases.driving import pause, settled
from outlast.stores.databases.source import Source, Transaction, begun
from outlast.stores.databases.tables import TRANSACTIONS

TRIES = 5
FIRST_PAUSE_S = 0.02
LONGEST_PAUSE_S = 1.0

FIND = "SELECT result FROM outlast_transactions WHERE key = :key"
INSERT = "INSERT INTO outlast_transactions (key, run_id, step_id, result) VALUES (:key, :run_id, :step_id, :result)"
SAVEPOINT = "SAVEPOINT outlast_step"
RELEASE = "RELEASE SAVEPOINT outlast_step"

KEPT_DAYS = 7
PAGE = 200

READ_OLD = (
    "SELECT key, run_id, step_id FROM outlast_transactions WHERE key > :after AND created < {} "
    f"ORDER BY key LIMIT {PAGE}"
)
LONG_AGO = {
    "sqlite": f"datetime('now', '-{KEPT_DAYS} days')",
    "postgresql": f"CURRENT_TIMESTAMP - interval '{KEPT_DAYS} days'",
}
DELETE = "DELETE FROM outlast_transactions WHERE key = :key"

Function = Callable[[Any], Any]


class RecordedStep(NamedTuple):
    """A step as its record knows it, and what is to be done for it.

    `function` is called with the transaction. `stored` makes of its result the bytes that are recorded and the value
    that they stand for, `decoded` that value of the bytes. `check` raises when nobody wants the outcome any more.
    """

    key: str
    run_id: str
    step_id: str
    function: Function
    stored: Callable[[Any], tuple[bytes, Any]]
    decoded: Callable[[bytes], Any]
    check: Callable[[], None]


async def committed_once(source: Source, step: RecordedStep) -> Any:
    """Return the step's result: the recorded one, or that of its function, committed with its record."""
    tries = 0
    while True:
        step.check()
        commit = _Commit()
        try:
            await TRANSACTIONS.ensure(source)
            async with begun(source) as transaction:
                return await _tried(transaction, step, commit)
        except Exception as error:
            tries += 1
            in_doubt = commit.sent and faults.is_lost(error)
            recorded = await _look(source, step, until_answered=in_doubt)
            if recorded is None and not in_doubt and not (faults.passes(error) and tries < TRIES):
                raise
        if recorded is not None:
            return step.decoded(recorded)
        await _pause(source, tries)


async def committed_alone(source: Source, function: Function) -> Any:
    """Call a function in a transaction, and commit it. No step's record is kept."""
    async with begun(source) as transaction:
        value = await _called(transaction, function)
        await transaction.commit()
        return value


class OldRecord(NamedTuple):
    """The record of a step that was committed more than `KEPT_DAYS` ago."""

    key: str
    run_id: str
    step_id: str


async def old_records(source: Source, after: str) -> list[OldRecord]:
    """Return a page of old records, by key, from the one after `after` on."""
    async with begun(source, write=False) as transaction:
        statement = READ_OLD.format(LONG_AGO[transaction.dialect.name])
        return [OldRecord(*row) for row in await transaction.execute(statement, {"after": after})]


async def forget(source: Source, keys: Sequence[str]) -> None:
    """Delete the records of these keys."""
    async with begun(source) as transaction:
        for key in keys:
            await transaction.execute(DELETE, {"key": key})
        await transaction.commit()


class _Commit:
    """Whether a COMMIT was sent."""

    sent = False


async def _tried(transaction: Transaction, step: RecordedStep, commit: _Commit) -> Any:
    recorded = await _found(transaction, step.key)
    if recorded is not None:
        return step.decoded(recorded)
    data, live = step.stored(await _called(transaction, step.function))
    values = {"key": step.key, "run_id": step.run_id, "step_id": step.step_id, "result": data}
    await transaction.execute(INSERT, values)
    step.check()
    commit.sent = True
    await transaction.commit()
    return live


async def _called(transaction: Transaction, function: Function) -> Any:
    """Call a function in an open transaction. Raises WrongUse when it has ended it.

    A savepoint lives no longer than its transaction.
    """
    await transaction.execute(SAVEPOINT)
    value = await settled(function(transaction.given))
    await transaction.flush()
    try:
        await transaction.execute(RELEASE)
    except Exception as error:
        if not faults.is_no_savepoint(error):
            raise
        raise WrongUse(
            "the function has ended its transaction by itself (commit, rollback, sqlite3's executescript), so its rows "
            "and its record could not be committed as one, and nothing was recorded. Leave the end of the transaction "
            "to Outlast; to undo a part of it use a savepoint"
        ) from error
    return value


async def _found(transaction: Transaction, key: str) -> bytes | None:
    rows = await transaction.execute(FIND, {"key": key})
    return bytes(rows[0][0]) if rows else None


async def _look(source: Source, step: RecordedStep, *, until_answered: bool) -> bytes | None:
    """Look on another connection for the record of a step."""
    tries = 0
    while True:
        with suppress(Exception):
            async with begun(source, write=False) as transaction:
                return await _found(transaction, step.key)
        if not until_answered:
            return None  # the error that led here says more
        tries += 1
        await _pause(source, tries)
        step.check()


async def _pause(source: Source, tries: int) -> None:
    longest = min(FIRST_PAUSE_S * 2**tries, LONGEST_PAUSE_S)
    await pause(longest * random.uniform(0.5, 1.0), is_async=source.is_async)
