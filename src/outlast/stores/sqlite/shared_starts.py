"""Starts that may be another run's: `dedup` and `debounce`."""

from __future__ import annotations

from outlast.core.records import RunRow
from outlast.stores.rows import TERMS_COLUMNS, run_row, terms
from outlast.stores.rules import debounced
from outlast.stores.sqlite.batch import Batch
from outlast.stores.sqlite.schema import RUN_COLUMNS
from outlast.stores.verbs import Answer, Conflict, Started, StartRun

DEDUP = f"SELECT {RUN_COLUMNS} FROM runs WHERE workflow = ? AND dedup = ? AND dedup <> '' AND ended IS NULL"
DEBOUNCE = (
    f"SELECT {RUN_COLUMNS} FROM runs WHERE workflow = ? AND debounce = ? AND debounce <> '' AND started IS NULL "
    "AND ended IS NULL"
)
DEBOUNCED = f"SELECT {RUN_COLUMNS} FROM runs WHERE debounce = ? AND incarnation = ? AND debounce <> '' AND workflow = ?"


def same_terms(b: Batch, verb: StartRun) -> Answer | None:
    """Answer a start that is another run's by its `dedup` or `debounce`; None where it is a run of its own."""
    run = verb.run
    if run.dedup and (row := b.row(DEDUP, run.workflow, run.dedup)):
        known = run_row(row)
        same = (known.is_step, known.input) == (run.is_step, run.input)
        return Started(known, created=False) if same else Conflict(known)
    if run.debounce:
        row = b.row(DEBOUNCED, run.debounce, run.incarnation, run.workflow)
        row = row or b.row(DEBOUNCE, run.workflow, run.debounce)
        again = debounced(run_row(row), verb) if row else None
        if again is not None:
            _replace(b, again)
            return Started(again, created=False)
    return None


def _replace(b: Batch, run: RunRow) -> None:
    sets = ", ".join(f"{name} = ?" for name in TERMS_COLUMNS.split(", "))
    b.db.execute(
        "UPDATE runs SET incarnation = ?, definition = ?, is_step = ?, options = ?, due = ?, python = ?, version = ?, "
        f"{sets} WHERE pk = ? AND started IS NULL",
        (
            run.incarnation,
            run.definition,
            run.is_step,
            run.options,
            run.due,
            run.python,
            run.version,
            *terms(run),
            run.pk,
        ),
    )
    if run.started is None:
        b.db.execute("INSERT OR REPLACE INTO inputs (run, input) VALUES (?, ?)", (run.pk, run.input))


def give_up_keys(b: Batch, run: RunRow) -> None:
    """Take `dedup` and `debounce` from a run that is resumed, where another run holds them by now."""
    holders = (b.row(DEDUP, run.workflow, run.dedup), b.row(DEBOUNCE, run.workflow, run.debounce))
    if run.dedup and holders[0] and holders[0][0] != run.pk:
        b.db.execute("UPDATE runs SET dedup = '' WHERE pk = ?", (run.pk,))
    if run.debounce and holders[1] and holders[1][0] != run.pk:
        b.db.execute("UPDATE runs SET debounce = '' WHERE pk = ?", (run.pk,))
