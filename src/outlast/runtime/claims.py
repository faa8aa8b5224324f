"""How runs come into a worker's memory: claimed when they are due, loaded, and begun.

A worker claims no more than it can execute: others may be idle. So there is a limit for the runs that it holds; it
claims none while steps of these wait for a place, and never more at once than could begin a step right away, in a
thread if need be. Of workflows that have been seen to need no thread it claims more at once, every second time where
more is due than it could claim, and when no thread is free.

A claim is one verb for many runs. A run that is started in this process is claimed by its start. Where an answer
was lost or a load failed, `reconcile` finds the runs that this worker owns and does not hold.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from outlast.core.errors import OutlastError, StoreError, StoreUnavailable
from outlast.core.records import RunRow
from outlast.core.telling import error_line
from outlast.core.transitions import Reason
from outlast.runtime import lines, registry
from outlast.runtime.execution import Execution
from outlast.runtime.notices import log
from outlast.runtime.trials import Trials
from outlast.stores.protocol import Loaded
from outlast.stores.rules import keepable
from outlast.stores.verbs import Answer, Claim, Claimed, Done, Fenced, Release, Stick

if TYPE_CHECKING:
    from outlast.runtime.worker import Worker

CLAIM_BATCH = 200
LOAD_BATCH = 100  # runs that are read together


class Claims:
    """See the top of this file. All methods are called on the worker's loop."""

    def __init__(self, worker: Worker, worker_concurrency: int, max_crashes: int) -> None:
        self._worker = worker
        self._trials = Trials(worker, max_crashes)
        self._concurrency = worker_concurrency
        self._arriving: set[Execution] = set()  # runs that have begun, and not come to their first step yet
        self._threaded: set[str] = set()  # workflows whose steps were seen to run in threads
        self._plain: set[str] = set()  # those that were seen to begin, and never to need a thread
        self._was_full = False  # the last claim, of any workflow, brought as many as it could
        self._loading: set[tuple[str, int]] = set()  # whose claim, and of what run
        self._claiming = 0  # how many runs the claim on its way may bring
        self._starting = 0  # runs claimed by their starts that are on their way
        self._claim_again = False
        self._had_no_room = False
        self._had_no_thread = False
        self._held_back = False
        self._looks_soon = False

    @property
    def busy(self) -> bool:
        """Whether runs are on their way into memory."""
        return bool(self._claiming or self._loading)

    @property
    def room(self) -> int:
        """How many more runs may come into memory: none while steps of those that are there wait for a place."""
        worker = self._worker
        if worker.draining or worker.places.spare < 0:
            return 0
        taken = len(worker.executions) + len(self._loading) + self._starting + self._claiming
        return max(0, self._concurrency - taken)

    @property
    def _coming(self) -> int:
        """How many runs of this worker have not come to their first step yet."""
        return len(self._loading) + self._starting + len(self._arriving)

    @property
    def _spare(self) -> int:
        """How many more runs could begin a step at once, even in a thread."""
        return min(self._worker.places.spare, self._worker.pool.spare) - self._coming

    def _claimable(self) -> tuple[tuple[str, ...], int]:
        """Return of which workflows how many runs may be claimed."""
        names, limit, spare = registry.names(), min(self.room, CLAIM_BATCH), self._spare
        if spare > 0 and not (self._was_full and self._plain):
            return names, min(limit, spare)
        plain = tuple(name for name in names if name in self._plain)
        if plain:
            ahead = 0 if self._coming > CLAIM_BATCH // 2 else CLAIM_BATCH - self._coming
            return plain, max(0, min(limit, ahead, self._worker.places.spare - self._coming))
        # One at a time, once the others have come to their steps, so that what needs no thread waits for none.
        return tuple(name for name in names if name not in self._threaded), 0 if self._coming else min(limit, 1)

    def claims_for(self, row: RunRow) -> str | None:
        """Return this worker's id if it takes a run that is just being started, None to leave it to the queue.

        Where it returns an id, `start_answered` has to be called when the start was answered.
        """
        if row.queue or row.due is not None or not self._worker.holds_lease() or not registry.knows(row.workflow):
            return None
        if not self.room or (row.workflow in self._threaded and self._spare <= 0):
            self._had_no_room = True
            return None
        self._starting += 1
        return self._worker.id

    def start_answered(self) -> None:
        """A start that had claimed its run for this worker was answered, in whatever way."""
        self._starting -= 1
        self._worker.loop.call_soon(self.room_made)  # the run may have been there before, and leave its room to others

    def look(self) -> None:
        """Claim what is due, as far as there is room."""
        if self._claiming:
            self._claim_again = True
            return
        names, limit = self._claimable()
        self._held_back = not self._worker.holds_lease()
        self._had_no_room = not limit
        self._had_no_thread = len(names) < len(registry.names())
        if not limit or not names or self._held_back:
            return
        self._claiming = limit
        self._claim_again = False
        verb = Claim(
            worker=self._worker.id,
            workflows=names,
            limit=limit,
            key=os.urandom(8).hex(),  # so that a claim whose answer was lost gives the same runs again
            version=self._worker.version,
            python=self._worker.python,
            queues=lines.queue_names(),
        )
        self._worker.writer.submit(verb, lambda answer: self._claimed(verb, answer))

    def _claimed(self, verb: Claim, answer: Answer | StoreError) -> None:
        self._claiming = 0
        if isinstance(answer, Claimed) and verb.worker == self._worker.id:
            suspects = [row for row in answer.runs if self._trials.suspects(row) and not self._has(row.pk)]
            self._load(*[row for row in answer.runs if row not in suspects])
            if suspects:
                self._trials.take(suspects, self._load)
            is_full = len(answer.runs) == verb.limit
            self._was_full = is_full and not self._was_full
            if is_full or self._claim_again:
                self.look()
        elif not isinstance(answer, (Claimed, Fenced)):
            self.reconcile_soon()  # nobody can tell what became of it
        self._worker.look_due()
        self._worker.check_empty()

    def _has(self, pk: int) -> bool:
        """Tell whether this worker holds the run, or is loading it (what the worker before it was loading is void)."""
        return pk in self._worker.executions or (self._worker.id, pk) in self._loading

    def lease_renewed(self) -> None:
        """Look now, if the lease did not hold when it was time to."""
        if self._held_back:
            self.look()

    def _load(self, *rows: RunRow) -> None:
        """Bring runs into memory that this worker has claimed, many with one read."""
        rows = tuple(row for row in rows if not self._has(row.pk))
        self._loading |= {(self._worker.id, row.pk) for row in rows}
        for at in range(0, len(rows), LOAD_BATCH):
            self._worker.loop.create_task(self._bring(self._worker.id, rows[at : at + LOAD_BATCH]))

    async def _bring(self, worker: str, rows: Sequence[RunRow]) -> None:
        pks = [row.pk for row in rows]
        try:
            found = {loaded.run.pk: loaded for loaded in await self._worker.read(self._worker.store.load, pks)}
        except StoreUnavailable:
            self._loading -= {(worker, pk) for pk in pks}
            self.reconcile_soon()
            return
        except Exception as error:  # noqa: BLE001 - a row that makes no sense: its run is found, named, and seen by a person
            self._loading -= {(worker, pk) for pk in pks}
            if worker == self._worker.id:
                self._load_alone(rows, error)
            return
        for row in rows:
            self._loading.discard((worker, row.pk))  # one by one: those that have yet to begin take their room
            loaded = found.get(row.pk)
            if worker == self._worker.id and loaded and (loaded.run.owner, loaded.run.claim) == (worker, row.claim):
                self._begin(loaded.run, loaded)
        if any(pk not in self._worker.executions for pk in pks):
            self.room_made()
        self._worker.check_empty()

    def _load_alone(self, rows: Sequence[RunRow], error: Exception) -> None:
        """Read runs one by one, since what cannot be read is of one of them; leave one stuck that cannot be read."""
        if len(rows) > 1:
            for row in rows:
                self._load(row)
            return
        log.error("run %s cannot be read from the store", rows[0].id or rows[0].pk, exc_info=error)
        self.cannot_run(rows[0], f"what is stored of it cannot be read: {error_line(error)}")

    def reconcile_soon(self) -> None:
        """Look in a moment whether this worker owns runs that it does not hold."""
        self._worker.loop.call_later(0.5, lambda: self._worker.loop.create_task(self.reconcile()))

    async def reconcile(self) -> None:
        """Take up runs that this worker owns but does not hold: an answer was lost, or a load failed."""
        try:
            owned = await self._worker.read(self._worker.store.owned, self._worker.id)
        except StoreError:
            self.reconcile_soon()
            return
        missing = [(pk, claim) for pk, claim in owned if not self._trials.keeps(pk)]
        self._load(*[RunRow(pk=pk, id="", incarnation="", workflow="", claim=claim) for pk, claim in missing])

    def room_made(self, queue: str = "") -> None:
        """A run left memory, or a step its place or thread: where there was no room before, there may be work.

        Where the run was on a queue, another may have its place there.
        """
        if self._lacks_room:
            self.look()
        elif queue:
            self._look_soon()

    @property
    def _lacks_room(self) -> bool:
        """Whether there may be runs that were left to others, and are not any more."""
        return self._claim_again or self._had_no_room or (self._had_no_thread and self._spare > 0)

    def _look_soon(self) -> None:
        """Look once for all the runs that leave at one moment."""
        if not self._looks_soon:
            self._looks_soon = True
            self._worker.loop.call_soon(self._look_now)

    def _look_now(self) -> None:
        self._looks_soon = False
        self.look()

    def step_began(self, execution: Execution, *, in_thread: bool) -> None:
        """A step of a run has begun."""
        if in_thread:
            self._threaded.add(execution.row.workflow)
            self._plain.discard(execution.row.workflow)
        self.arrived(execution)

    def arrived(self, execution: Execution) -> None:
        """A run has come to its first step, to a rest or to its end: what it takes is known now."""
        if execution in self._arriving:
            self._arriving.discard(execution)
            if execution.row.workflow not in self._threaded:
                self._plain.add(execution.row.workflow)
            if self._lacks_room:
                self._look_soon()

    def begin_started(self, row: RunRow, *, new: bool = True) -> None:
        """A run was just started: execute it, if it was claimed for this worker.

        Where it may have been started before (`new=False`) it may have a journal, or messages, and is loaded.
        """
        self._worker.notices("run.started", run=row.id, workflow=row.workflow)
        if row.owner != self._worker.id or self._has(row.pk):
            self._worker.look_due()
            if self._had_no_room:
                self.look()
            elif row.queue:
                self._look_soon()
            else:
                self._worker.look_due()
            return
        if new:
            self._begin(row, None)
        else:
            self._load(row)

    def begin_turn(self, before: Execution, row: RunRow) -> None:
        """A run has continued as another call: go on with it, if it is still this worker's."""
        worker = self._worker
        if worker.executions.get(row.pk) is not before or row.owner != worker.id:
            self.reconcile_soon()
            return
        before.stop()
        del worker.executions[row.pk]
        self._begin(row, Loaded(row, (), tuple(m for m in before.inbox.mail.unread() if m.key[:1] != "!")))
        worker.fetch_inbox_soon()
        worker.check_empty()

    def _begin(self, row: RunRow, loaded: Loaded | None) -> None:
        if self._worker.draining:  # nothing is begun any more, here it could outlive this worker
            self._worker.writer.submit(
                Release(worker=self._worker.id, run=row.pk, claim=row.claim), lambda _: self._worker.check_empty()
            )
            return
        records = loaded.records if loaded is not None else ()
        if not self._worker.notices.quiet:
            self._worker.notices(
                "run.claimed", run=row.id, workflow=row.workflow, claim=row.claim, records=len(records)
            )
        try:
            execution = Execution(self._worker, row, registry.find(row), records)
        except OutlastError as error:
            self.cannot_run(row, str(error))
            return
        except Exception as error:  # noqa: BLE001 - a codec's: whatever it is, the run is named and a person sees it
            log.exception("run %s cannot be executed", row.id)
            self.cannot_run(row, f"an unexpected error: {error_line(error)}")
            return
        if loaded is None:
            execution.replayed = -1  # no execution of it came before this one
        else:
            execution.output.know(loaded.sources)
        self._worker.executions[row.pk] = execution
        self._arriving.add(execution)
        self._trials.begun(execution)
        execution.begin(loaded.inbox if loaded is not None else ())

    def cannot_run(self, row: RunRow, why: str) -> None:
        """Leave a run that this worker owns stuck, and say why."""
        why = keepable(why)
        verb = Stick(worker=self._worker.id, run=row.pk, claim=row.claim, reason=Reason.UNDECODABLE, detail=why)

        def done(answer: Answer | StoreError) -> None:
            if not isinstance(answer, Done):
                self.reconcile_soon()  # it may still be ours, and nobody else sees to it
                return
            self._worker.notices("run.stuck", run=row.id, reason=Reason.UNDECODABLE.value, detail=why)
            self._worker.look_at_ends()

        self._worker.writer.submit(verb, done)
