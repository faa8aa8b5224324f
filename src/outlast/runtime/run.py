"""A handle on one run."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from outlast.core.errors import DecodingError, RunCancelled, RunNotFound, RunStuck
from outlast.core.frames import add_note, where_of
from outlast.core.records import Kind, Record, RunRow
from outlast.core.telling import error_line
from outlast.core.transitions import ENDED, Status
from outlast.runtime import registry
from outlast.runtime.seen import seen_workers, standing, worker_command

if TYPE_CHECKING:
    from outlast.runtime.client import Client

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class StepInfo:
    """One step (or child, timer...) of a run, as its journal has it.

    - `id`: its identity (`main/charge#1`); `name`, `kind` (`step`, `timer`, `child`, `cancel`, `patch`), `effect`.
    - `state`: `done`, `failed`, `retrying` (its next attempt is at `due`), `in_doubt` (or its attempt is under way:
      only its worker knows), `resolved` (a person decided, and no worker has taken that up yet), or `late` (done, when
      nobody waited for it any more). A `pure` or `idempotent` step under way has no record, so it is not listed.
    - `attempts`: how many there were. `started`, `ended`: seconds since the epoch. A timer has no `started` (0): its
      `ended` is when it fired.
    - `value`: the result, decoded where that is possible here, else text. `error`: the last error, in one line;
      `where`: the line of your code that raised it (`agent.py:12 in deep`).
    - `args`: the arguments as JSON, or `#` and a digest when they are long.
    - `note`: how a doubt was settled, that a failed `once` step `did not happen`, or what `outlast.annotate` added, as
      JSON.
    - `history`: why it was in doubt and what was decided, and by whom, oldest first; of an attempt that was in doubt.
    - `worker`: who executed it. `seq`: the number of its last record, for paging.
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


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What a store says of a run. Times are seconds since the epoch.

    - `id`, `workflow`, `status`, and for a stuck run its `reason`. `detail`: what it waits for, or why it is stuck.
    - `created`. `started`: when a worker first claimed it. `ended`. `due`: when it wakes by itself.
    - `error`: the error that it ended with, in one line. `where`: the line of your code that raised it
      (`agent.py:12 in deep`). `culprit`: the identity of the step whose error that was.
    - `owner`: the worker that executes it now. `claims`: how often it was claimed. `crashes`: workers that died in a
      row under it without a new record.
    - `version`, `python`: of the code and the interpreter that last claimed it.
    - `parent`: the run id of the parent, for a child run. `parent_call`: the identity of the parent's call.
    - `is_step`: whether it is a run of a single step. `incarnation`: the random text that its keys derive from.
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


class Run(Generic[R]):
    """A handle on one run of a store, made by `app.start` and `app.get`.

    It holds no connection of its own; cancelling whoever waits on it does nothing to the run.
    """

    def __init__(self, app: Client, row: RunRow, returns: Any = Any) -> None:
        self._app = app
        self._row = row
        self._returns = returns

    def __repr__(self) -> str:
        return f"<Run {self.id} of {self._row.workflow}>"

    @property
    def id(self) -> str:
        """The run id."""
        return self._row.id

    @property
    def workflow(self) -> str:
        """The name of the workflow, or `step:NAME` for a run of a single step."""
        return self._row.workflow

    async def result(self, timeout: float | None = None) -> R:
        """Wait for the end of the run and return its result, or raise the error it ended with.

        `timeout` in seconds limits the waiting only. Raises RunCancelled when the run was
        cancelled, RunStuck when it needs a person, TimeoutError (which says how it stands), RunNotFound.
        """
        return self._outcome(await self._end(timeout))  # type: ignore[no-any-return]

    async def _end(self, timeout: float | None) -> RunRow:
        if timeout is None or self._row.status is Status.SUCCEEDED:
            return await self._end_of(self._row)
        now = await self._fresh()  # a look comes first, so that a timeout of 0 asks whether it has ended
        if not _is_over(now):
            with contextlib.suppress(TimeoutError):
                return await asyncio.wait_for(self._end_of(now), timeout)
            now = await self._fresh()
        if _is_over(now):
            return now
        raise TimeoutError(await self._how_it_stands(now, timeout))

    async def _end_of(self, row: RunRow) -> RunRow:
        app = self._app
        app._check_loop()
        with app.lookout.waiting_for(row) if app.lookout is not None else contextlib.nullcontext():
            return await app.ends.wait(row)

    async def _how_it_stands(self, row: RunRow, after_s: float) -> str:
        app = self._app
        workers = await app._read(seen_workers, app.store)
        says = standing(row, workers, worker_command(row, app.url))
        return f"run {self.id} ({row.workflow}) had not ended after {after_s:g} s: it is {says}"

    def _outcome(self, row: RunRow) -> Any:
        codec = self._app.codec
        match row.status:
            case Status.SUCCEEDED:
                returns = self._returns
                if returns is Any:
                    known = registry.known(row.workflow)
                    returns = known.returns if known is not None else Any
                try:
                    return codec.decode(row.result or b"null", returns)
                except DecodingError as error:
                    raise DecodingError(f"run {row.id}: its result cannot be rebuilt here: {error}") from None
            case Status.CANCELLED:
                raise RunCancelled(f"run {row.id} ({row.workflow}) was cancelled")
            case Status.STUCK:
                reason = row.reason.value if row.reason is not None else ""
                raise RunStuck(f"run {row.id} ({row.workflow}) is stuck: {reason}: {row.detail}", reason)
            case _:
                raised = codec.decode_error(row.error or b"")
                if where := where_of(raised):
                    step = f", {row.culprit}" if row.culprit else ""
                    add_note(raised, f"raised at {where} (run {row.id} of {row.workflow}{step})")
                raise raised

    async def info(self) -> RunInfo:
        """Return what the store says of the run now. Raises RunNotFound."""
        row = await self._fresh()
        return info_of(row, self._app, await self._app._parents([row]))

    async def status(self) -> str:
        """Return the name of the run's status now. Raises RunNotFound."""
        return (await self._fresh()).status.value

    async def steps(self, *, after: int = 0, limit: int | None = None) -> list[StepInfo]:
        """Return the steps (children, timers...) in the order of the journal; `after` is a `seq` for paging."""
        row = await self._fresh()
        records = await self._app._read(self._app.store.records, row.pk)
        steps = [s for s in steps_of(records, self._app) if s.seq > after]
        return steps if limit is None else steps[:limit]

    async def cancel(self) -> None:
        """Ask the run to end: its body gets CancelledError where it waits, and cleans up first.

        Returns when the request is committed. Raises RunEnded, RunNotFound.
        """
        await self._app.cancel(self.id)

    async def _fresh(self) -> RunRow:
        row: RunRow | None = await self._app._read(self._app.store.run_by_pk, self._row.pk)
        if row is None:
            raise RunNotFound(f"run {self.id} is no longer in the store (it was pruned)")
        return row


def _is_over(row: RunRow) -> bool:
    return row.status in ENDED or row.status is Status.STUCK


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
        detail=row.detail,
        created=row.created,
        started=row.started,
        ended=row.ended,
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
        incarnation=row.incarnation,
        culprit=row.culprit,
        where=where,
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
    if last.kind in (Kind.STEP, Kind.CHILD, Kind.LATE):
        state = ("late" if last.kind is Kind.LATE else "done") if last.ok else "failed"
        if last.ok:
            value = _shown(last.value, app)
    elif last.kind is Kind.START:
        state = "running"
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
    effect = next((r.effect for r in group if r.effect), "")
    return StepInfo(
        id=last.key,
        name=last.name or group[0].name,
        kind=kind,
        state=state,
        effect=effect,
        attempts=max(r.attempt for r in group),
        started=next((r.started for r in group if r.started), 0.0 if group[0].kind in ENDS_ONLY else group[0].at),
        ended=last.ended or last.at,
        worker=last.worker,
        seq=last.seq,
        value=value,
        error=error,
        where=where,
        history=_history(group),
        args=(last.args or group[0].args or b"").decode("utf-8", "replace"),
        note=last.note,
        due=last.due,
    )


def _history(group: list[Record]) -> tuple[str, ...]:
    told = []
    for record in group:
        if record.kind is Kind.INTENT and record.note:
            told.append(f"in doubt: {record.note}")
        elif record.kind is Kind.RESOLUTION:
            told.append(f"decided: {record.note.replace('_', ' ')}" + (f" by {record.worker}" if record.worker else ""))
    return tuple(told)


def _shown(data: bytes | None, app: Client) -> Any:
    try:
        return app.codec.decode(data or b"null")
    except Exception:  # noqa: BLE001 - a reading tool never fails on one value
        return (data or b"").decode("utf-8", "replace")
