"""What must hold when all is over, whatever was killed, frozen or cut off meanwhile.

`settle()` waits until every run has come to its end and lets a person decide what
only a person can; `wrongs()` then says everything that is not as it must be.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import msgspec

from outlast import DidNotHappen, Happened
from outlast.core.records import EVENTS, Effect, Kind, Record, RunRow
from outlast.core.transitions import ENDED, Reason, Status
from outlast.runtime.step_turns import NOT_STARTED
from tests.crash.harness.ledger import REFUSED, Line
from tests.crash.harness.scene import DEADLINE_S, Missing, Scene

OVER = (*ENDED, Status.STUCK)
ONCE = Effect.ONCE.value
OUTCOMES = (Kind.STEP, Kind.LATE)


def settle(scene: Scene, deadline_s: float = DEADLINE_S) -> list[str]:
    """Wait for the end of all runs, deciding doubts by the ledger. Return what a doubt was wrongly left about."""
    wrong: list[str] = []
    while True:
        scene.until("every run is over", lambda: over(scene), deadline_s)
        in_doubt = [row for row in scene.rows() if row.reason is Reason.IN_DOUBT]
        if not in_doubt:
            return wrong
        for row in in_doubt:
            wrong += decide(scene, row)


def over(scene: Scene) -> bool:
    """Tell whether every run has come to its end, or waits for a person."""
    return all(row.status in OVER for row in scene.rows())


def decide(scene: Scene, row: RunRow) -> list[str]:
    """Decide, as a person, what became of the attempt that a run is in doubt about: the ledger knows.

    Return what is wrong with the doubt itself.
    """
    records = scene.journal(row.id)
    open_intents = [r for r in records if r.kind is Kind.INTENT and not _outcome(records, r)]
    wrong = [
        f"{row.id} is in doubt about {r.key}, which its confirm can settle" for r in open_intents if r.name != "mail"
    ]
    if not open_intents:
        return [*wrong, f"{row.id} is in doubt, but no attempt of it is"]
    intent = open_intents[0]
    went_out = any(line.run == row.id and line.step == intent.key for line in scene.ledger)
    arg = msgspec.json.decode(intent.args or b"[]")[0]
    with scene.client() as app:
        decision = Happened(f"mailed {arg.partition(':')[0]}") if went_out else DidNotHappen()
        app.resolve(row.id, intent.key, decision, attempt=intent.attempt, by="the test")
    return wrong


def _outcome(records: list[Record], intent: Record) -> bool:
    kinds = (Kind.STEP, Kind.LATE, Kind.ATTEMPT, Kind.RESOLUTION)
    return any(r.seq > intent.seq and r.key == intent.key and r.kind in kinds for r in records)


def wrongs(scene: Scene, *, may_repeat: frozenset[Line] = frozenset()) -> list[str]:
    """Return all that is not as it must be. `may_repeat`: what a process did that was frozen in the middle of it."""
    rows = scene.rows()
    journals = {row.id: scene.store.records(row.pk) for row in rows}
    wrong = [f"the store: {what}" for what in scene.store.check()]
    known = {row.id: row for row in rows}
    wrong += [f"{run} was accepted and is not there" for run in scene.accepted if run not in known]
    for row in rows:
        if row.status is not Status.SUCCEEDED:
            wrong.append(f"{row.id} {row.status.value} {row.reason or ''} {row.detail} {(row.error or b'').decode()}")
        elif row.id in scene.accepted:
            wrong += _result(row, *scene.accepted[row.id])
        wrong += _journal(row.id, journals[row.id])
    lines = [line for line in scene.ledger if line not in may_repeat and line.effect != REFUSED]
    return wrong + _effects(lines, journals, scene.blur_s)


# -- one run -------------------------------------------------------------------------


ERRAND = ["stored {0}", "paid 100 for {0}", "finally {0}", "crunched {0}", "stored left", "right", "crunched third"]
NATIVE = ["paid 100 for {0}", "stored {0}", "stored parcel of {0}", "stored last"]
EXPECTED = {
    "errand": ["{0}", *ERRAND, "stored parcel of {0}", "stored last"],
    "native": [
        "{0}",
        "stored {0}",
        "crunched {0}",
        "paid 100 for {0}",
        "stored {0}",
        "stored parcel of {0}",
        "stored last",
    ],
    "letter": ["{0}", "mailed {0}", "stored mailed {0}"],
    "chore": ["crunched {0}", "paid 5 for {0}", "crunched again"],
    "vigil": ["{0}", "dozed {0}", "stored awake"],
    "waiter": ["{0}", "stored after the wait"],
    "gated": ["{0}", "passed {0}", "stored {0}", "paid 7 for {0}"],
    "blocker": ["blocked {0}", "stored after"],
    "holder": ["held {0}", "stored after"],
    "overrunner": ["attempt 2 of {0}", "stored after"],
    "gated_in_thread": ["waited {0}"],
    "queue_up": ["waited {0}", "paid 9 for {0}"],
    "late_letter": ["mailed {0}"],
    "late_payment": ["paid 3 for {0}", "passed {0}"],
    "many_threads": ["{0}", "crunched {0}"],
}
"""The results of undisturbed runs, by workflow; `{0}` is the run's first argument. What is random in a thought goes."""


def expected(workflow: str, args: list[Any]) -> list[str]:
    """Return the result of an undisturbed run."""
    if workflow == "two_children":
        return [f"stored parcel of {args[0]}{n}" for n in range(6)]
    if workflow == "march":
        return [f"dozed {args[0]}{n}" for n in range(args[1])]
    return [said.format(args[0]) for said in EXPECTED[workflow]]


def _result(row: RunRow, workflow: str, args: list[Any]) -> list[str]:
    result = [said.partition(":")[0] for said in msgspec.json.decode(row.result or b"null")]
    want = expected(workflow, args)
    return [] if result == want else [f"{row.id} returned {result}, undisturbed it returns {want}"]


def _journal(run: str, records: list[Record]) -> list[str]:
    wrong = []
    if [r.seq for r in records] != list(range(1, len(records) + 1)):
        wrong.append(f"{run}: the journal's numbers are {[r.seq for r in records]}")
    # The end of a child may be told twice, by its own row and through the inbox; the second is kept as late.
    ends = [r.key for r in records if r.kind in EVENTS or (r.kind is Kind.LATE and r.effect)]
    wrong += [f"{run}: {key} has {ends.count(key)} outcomes" for key in set(ends) if ends.count(key) > 1]
    mail = [r for r in records if r.name == "mail"]
    # An intent that is written once more, since a decision came too early to be believed, is no further attempt.
    letters = {r.attempt for r in mail if r.kind is Kind.INTENT}
    letters -= {r.attempt for r in mail if r.note == NOT_STARTED}  # its time was over before it began
    if len(letters) - 1 > len({r.attempt for r in mail if r.kind is Kind.RESOLUTION}):
        wrong.append(f"{run}: a letter was tried again though nobody had decided its doubt")
    for r in records:
        before = [i for i in records if i.kind is Kind.INTENT and i.key == r.key and i.seq < r.seq]
        if r.kind in OUTCOMES and r.effect == ONCE and (not before or before[-1].attempt != r.attempt):
            wrong.append(f"{run}: {r.key} has an outcome without an intent")
    return wrong


# -- the ledger ------------------------------------------------------------------------


def _effects(lines: list[Line], journals: dict[str, list[Record]], blur_s: float) -> list[str]:
    wrong: list[str] = []
    by_step: dict[tuple[str, str], list[Line]] = defaultdict(list)
    by_key: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for line in lines:
        by_step[line.run, line.step].append(line)
        by_key[line.key].add((line.run, line.step))
    wrong += [f"the key {key} was given to {sorted(steps)}" for key, steps in by_key.items() if len(steps) > 1]
    for (run, step), done in by_step.items():
        where = f"{step} of {run}"
        for r in journals.get(run, []):
            if r.key == step and r.kind is Kind.ATTEMPT:
                again = [line for line in done if line.attempt == r.attempt and line.at > r.ended + blur_s]
                wrong += [f"{where} was executed again as attempt {r.attempt}, which had failed" for _ in again]
        outcome = next((r for r in journals.get(run, []) if r.key == step and r.kind in OUTCOMES), None)
        if len({line.key for line in done}) > 1:
            wrong.append(f"{where} had several keys")
        if done[0].effect == ONCE and len(done) > 1:
            wrong.append(f"{where} has effect once and was done {len(done)} times, by {[line.pid for line in done]}")
        if outcome is None:
            wrong.append(f"{where} was done, and the journal says nothing of it")
            continue
        ended = outcome.ended + blur_s
        wrong += [f"{where} was executed again after it had finished" for line in done if line.at > ended]
        arg = msgspec.json.decode(outcome.args or b"[]")[0]
        wrong += [f"{where} was done with {line.arg!r}, the journal says {arg!r}" for line in done if line.arg != arg]
    return wrong


def judge(scene: Scene, deadline_s: float = DEADLINE_S) -> list[str]:
    """Settle the scene and return all that is wrong with it."""
    try:
        return settle(scene, deadline_s) + wrongs(scene)
    except Missing as missing:
        left = [row for row in scene.rows() if row.status not in OVER]
        return [*(f"{r.id} is {r.status.value}, owner={r.owner} due={r.due} {r.detail}" for r in left), str(missing)]
