"""Starts that may be another run's: `dedup` and `debounce`."""

from __future__ import annotations

from outlast.core.records import RunRow
from outlast.stores.rows import TERMS_COLUMNS, as_started, run_row, terms
from outlast.stores.rules import debounced
from outlast.stores.sqlite.batch import Batch
from outlast.stores.sqlite.schema import RUN_COLUMNS
from outlast.stores.verbs import Answer, Conflict, Started, StartRun

DEDUP = f"SELECT {RUN_COLUMNS} FROM runs WHERE workflow = ? AND dedup = ? AND dedup <> '' AND ended IS NULL"
DEDUP_AT_FIRST = (  # the same of a run that has continued as another workflow since
    f"SELECT {RUN_COLUMNS} FROM runs INDEXED BY runs_dedup WHERE EXISTS (SELECT 1 FROM firsts WHERE run = pk "
    "AND workflow = ?) AND dedup = ? AND dedup <> '' AND ended IS NULL"
)
DEBOUNCE = (
    f"SELECT {RUN_COLUMNS} FROM runs WHERE workflow = ? AND debounce = ? AND debounce <> '' AND started IS NULL "
    "AND ended IS NULL"
)
DEBOUNCED = f"SELECT {RUN_COLUMNS} FROM runs WHERE debounce = ? AND incarnation = ? AND debounce <> '' AND workflow = ?"


def same_terms(b: Batch, verb: StartRun) -> Answer | None:
    """Answer a start that is another run's by its `dedup` or `debounce`; None where it is a run of its own."""
    run = verb.run
    if run.dedup and (known := _holder(b, run.workflow, run.dedup)):
        first = first_turn(b, known)
        same = (first.workflow, first.is_step, first.input) == (run.workflow, run.is_step, run.input)
        return Started(known, created=False) if same else Conflict(first)
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
        "UPDATE runs SET incarnation = ?, definition = ?, is_step = ?, options = ?, due = ?, deadline = ?, python = ?, "
        f"version = ?, {sets} WHERE pk = ? AND started IS NULL",
        (
            run.incarnation,
            run.definition,
            run.is_step,
            run.options,
            run.due,
            run.deadline,
            run.python,
            run.version,
            *terms(run),
            run.pk,
        ),
    )
    if run.started is None:
        b.db.execute("INSERT OR REPLACE INTO inputs (run, input) VALUES (?, ?)", (run.pk, run.input))


def give_up_keys(b: Batch, run: RunRow, *names: str) -> None:
    """Take `dedup` and `debounce` from a run that is to have them under these names, where another run holds them."""
    for name in names:
        holder = _holder(b, name, run.dedup) if run.dedup else None
        if holder and holder.pk != run.pk:
            b.db.execute("UPDATE runs SET dedup = '' WHERE pk = ?", (run.pk,))
        row = b.row(DEBOUNCE, name, run.debounce) if run.debounce else None
        if row and row[0] != run.pk:
            b.db.execute("UPDATE runs SET debounce = '' WHERE pk = ?", (run.pk,))


def _holder(b: Batch, workflow: str, dedup: str) -> RunRow | None:
    row = b.row(DEDUP, workflow, dedup) or b.row(DEDUP_AT_FIRST, workflow, dedup)
    return run_row(row) if row else None


def first_turn(b: Batch, known: RunRow) -> RunRow:
    """Return a run as it was when it was started: by another call, where it has continued as something else since."""
    if known.turn == 1:
        return known
    row = b.row("SELECT incarnation, workflow, definition, input FROM firsts WHERE run = ?", known.pk)
    return as_started(known, row)
