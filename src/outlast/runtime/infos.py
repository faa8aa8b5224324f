"""What is shown of runs, their steps and their messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from outlast.core.certainty import CONFIRMED, CONFIRMED_HAPPENED, NOT_RECORDED
from outlast.core.durabilities import shown_of_options
from outlast.core.frames import where_of
from outlast.core.records import Kind, Record, RunRow
from outlast.core.telling import error_line
from outlast.core.transitions import ENDED
from outlast.core.usage import NOTHING, USAGE, Tokens, facts_of, shown_note, tokens_in
from outlast.runtime.awaited import detail_of

if TYPE_CHECKING:
    from outlast.runtime.client import Client


@dataclass(frozen=True, slots=True)
class StepInfo:
    """One step (or child, timer...) of a run, as its journal has it.

    - `id`: its identity (`main/charge#1`); `name`, `kind` (`step`, `timer`, `child`, `message`, `approval`, `cancel`,
      `patch`), `effect`.
    - `state`: `done`, `failed`, `retrying` (its next attempt is at `due`), `in_doubt` (or its attempt is under way:
      only its worker knows), `waiting` (for a person's answer), `resolved` (a person decided, and no worker has taken
      that up yet), or `late` (done, when nobody waited for it any more). A `pure` or `idempotent` step under way has no
      record, so it is not listed.
    - `attempts`: how many there were. `started`, `ended`: seconds since the epoch. A timer has no `started` (0): its
      `ended` is when it fired.
    - `value`: the result, decoded where that is possible here, else text. `error`: the last error, in one line;
      `where`: the line of your code that raised it (`agent.py:12 in deep`).
    - `args`: the arguments as JSON, or `#` and a digest when they are long.
    - `note`: how a doubt was settled, that a failed `once` step `did not happen`, or what `outlast.annotate` added, as
      JSON.
    - `history`: of attempts that were in doubt, oldest first: why, what `confirm` said, what was decided, and by whom.
    - `worker`: who executed it. `seq`: the number of its last record, for paging.
    - `usage`: what all its attempts used of models, as they told by `outlast.record_usage`; None for nothing.
    """

    id: str
    name: str
    kind: str
    state: str
    effect: str = ""
    attempts: int = 0
    started: float = 0.0
    ended: float = 0.0
    worker: str = ""
    seq: int = 0
    value: Any = None
    error: str = ""
    args: str = ""
    note: str = ""
    due: float | None = None
    where: str = ""
    history: tuple[str, ...] = ()
    usage: Tokens | None = None


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What a store says of a run. Times are seconds since the epoch.

    - `id`, `workflow`, `status`, and for a stuck run its `reason`. `detail`: all that it waits for once it rests,
      or why it is stuck.
    - `created`. `started`: when a worker first claimed it. `ended`. `due`: when it wakes by itself.
      `deadline`: when it is cancelled, and fails, if it has not ended.
    - `error`: the error that it ended with, in one line. `where`: the line of your code that raised it
      (`agent.py:12 in deep`). `culprit`: the identity of the step whose error that was.
    - `owner`: the worker that executes it now. `claims`: how often it was claimed. `crashes`: workers that died in a
      row under it without a new record.
    - `version`, `python`: of the code and the interpreter that last claimed it.
    - `parent`: the run id of the parent, for a child run. `parent_call`: the identity of the parent's call.
    - `queue`: the queue that it is on, `queue_key` its key there, `priority` its turn.
    - `is_step`: whether it is a run of a single step. `incarnation`: the random text that its keys derive from.
    - `turn`: 1, and one more for each time that it went on by `outlast.continue_as`. `durability`: `sync`, `async` or
      `exit`. `held`: whether it is held back, so that nobody claims it. `cancelling`: since when it is being cancelled.
    """

    id: str
    workflow: str
    status: str
    reason: str = ""
    detail: str = ""
    created: float = 0.0
    started: float | None = None
    ended: float | None = None
    owner: str = ""
    claims: int = 0
    crashes: int = 0
    version: str = ""
    python: str = ""
    parent: str = ""  # the run id of the parent, for a child run
    parent_call: str = ""  # the identity of the parent's call
    error: str = ""
    due: float | None = None
    is_step: bool = False
    incarnation: str = ""
    culprit: str = field(default="")
    where: str = ""
    turn: int = 1
    durability: str = "sync"
    held: bool = False
    cancelling: float | None = None
    deadline: float | None = None
    queue: str = ""
    queue_key: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class ApprovalInfo:
    """An approval that a run asked for with `outlast.approve`.

    - `id`: by which it is answered. `run`: the run id. `call`: the identity of the run's call.
    - `question`, `data`, `to`: what the run says. `form`: the JSON schema of what can be filled in, None where it is
      yes or no only.
    - `status`: `open`, `approved`, `rejected`, `expired`, or `withdrawn` (its run waits no longer).
    - `created`, `due` (when it expires), `answered`: seconds since the epoch.
    - `by`, `note`, `value`: who answered, what was added, and what was filled in.
    - `problem`: why an earlier answer was given back, where the form was not filled in as asked for.
    """

    id: str
    run: str
    question: str
    data: Any
    status: str
    to: str
    created: float
    due: float | None
    form: Any
    answered: float | None
    by: str
    note: str
    value: Any
    problem: str
    call: str


@dataclass(frozen=True, slots=True)
class MessageInfo:
    """A message that was sent to a run and that the run has not taken.

    - `name`: what `outlast.receive` waits for. `id`: of the message.
    - `value`: decoded where that is possible here, else text. `sent`: seconds since the epoch.
    """

    name: str
    value: Any
    id: str
    sent: float


def info_of(row: RunRow, app: Client, parents: dict[int, str]) -> RunInfo:
    """Make the public view of a run. `parents` gives the run ids of parents by their keys."""
    error = where = ""
    if row.error is not None:
        failure = app.codec.decode_error(row.error)
        error, where = error_line(failure), where_of(failure)
    return RunInfo(
        id=row.id,
        workflow=row.workflow,
        status=row.status.value,
        reason=row.reason.value if row.reason else "",
        detail=detail_of(row),
        created=row.created,
        started=row.started,
        ended=row.ended,
        deadline=row.deadline,
        owner=row.owner or "",
        claims=row.claim,
        crashes=row.crashes,
        version=row.version,
        python=row.python,
        parent=parents.get(row.parent or 0, ""),
        parent_call=row.parent_key,
        error=error,
        due=row.due,
        is_step=row.is_step,
        turn=row.turn,
        durability=shown_of_options(row.options),
        held=row.held,
        cancelling=row.cancelling if row.status not in ENDED else None,
        incarnation=row.incarnation,
        culprit=row.culprit,
        where=where,
        queue=row.queue,
        queue_key=row.queue_key,
        priority=row.priority,
    )


def steps_of(records: list[Record], app: Client) -> list[StepInfo]:
    """Fold a journal into one entry per step, in order of first appearance."""
    order: dict[str, list[Record]] = {}
    for record in records:
        if record.kind in (Kind.PATCH, Kind.CANCEL):
            order[f"{record.kind.value}:{record.key}:{record.seq}"] = [record]
        else:
            order.setdefault(record.key, []).append(record)
    return [_fold(key, group, app) for key, group in order.items()]


ENDS_ONLY = frozenset({Kind.TIMER, Kind.CHILD, Kind.MESSAGE})  # records that do not say when it was that this began


def _fold(key: str, group: list[Record], app: Client) -> StepInfo:
    last = group[-1]
    attempts = [r for r in group if r.kind is Kind.ATTEMPT]
    value, error, where = None, "", ""
    if last.kind in (Kind.STEP, Kind.CHILD, Kind.LATE, Kind.MESSAGE):
        state = ("late" if last.kind is Kind.LATE else "done") if last.ok else "failed"
        if last.ok:
            value = shown_value(last.value, app)
    elif last.kind is Kind.START:
        state = "running"
    elif last.kind is Kind.ASK:
        state = "waiting"
    elif last.kind is Kind.INTENT:
        state = "in_doubt"  # or running: only its worker knows
    elif last.kind is Kind.RESOLUTION:
        state = "resolved"
    elif last.kind is Kind.ATTEMPT:
        state = "retrying"
    else:
        state = "done"
    failed = last if not last.ok and last.value else (attempts[-1] if attempts and attempts[-1].value else None)
    if failed is not None and state != "done":
        failure = app.codec.decode_error(failed.value or b"")
        error, where = error_line(failure), where_of(failure)
    of_steps = (Kind.INTENT, Kind.ATTEMPT, Kind.RESOLUTION, Kind.LATE)
    kind = "step" if last.kind in of_steps else "child" if last.kind is Kind.START else last.kind.value
    if group[0].kind is Kind.ASK:
        kind = "approval"
    effect = next((r.effect for r in group if r.effect), "")
    return StepInfo(
        id=last.key,
        name=last.name or group[0].name,
        kind=kind,
        state=state,
        effect=effect,
        attempts=max(r.attempt for r in group),
        started=_begun(group),
        ended=last.ended or last.at,
        worker=last.worker,
        seq=last.seq,
        value=value,
        error=error,
        where=where,
        history=_history(group),
        args=(last.args or group[0].args or b"").decode("utf-8", "replace"),
        note=shown_note(last.note),
        due=last.due,
        usage=_used(group, app),
    )


def _used(group: list[Record], app: Client) -> Tokens | None:
    found = [used for r in group for _, used in tokens_in(facts_of(r.note), USAGE, app.prices)]
    return sum(found, NOTHING) if found else None


def _begun(group: list[Record]) -> float:
    """Return when something began: an approval, when it was asked (its answer says when that was given)."""
    if group[0].kind is Kind.ASK:
        return group[0].at
    return next((r.started for r in group if r.started), 0.0 if group[0].kind in ENDS_ONLY else group[0].at)


def _history(group: list[Record]) -> tuple[str, ...]:
    told: list[str] = []
    doubted = 0  # the attempt whose doubt was told
    for record in group:
        decided = f"decided: {record.note.replace('_', ' ')}" if record.kind is Kind.RESOLUTION else ""
        settled = record.note if record.note in (CONFIRMED, CONFIRMED_HAPPENED) else ""
        if record.kind is Kind.INTENT and record.note:
            if (said := f"in doubt: {record.note}") not in told[-1:]:
                told.append(said)
            doubted = record.attempt
        elif decided or settled:
            if doubted != record.attempt:
                told.append(f"in doubt: {NOT_RECORDED}")
                doubted = record.attempt
            told.append(settled or decided + (f" by {record.worker}" if record.worker else ""))
    return tuple(told)


def shown_value(data: bytes | None, app: Client) -> Any:
    """Return a value for people: decoded where that is possible here, else its text."""
    try:
        return app.codec.decode(data or b"null")
    except Exception:  # noqa: BLE001 - a reading tool never fails on one value
        return (data or b"").decode("utf-8", "replace")
