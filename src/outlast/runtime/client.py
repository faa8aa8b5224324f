"""What any process may ask of a store: to start runs, to find them, and to act on them. `App` is such a client."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, TypeVar, TypeVarTuple

from outlast.core.codec import Codec
from outlast.core.definitions import Call
from outlast.core.errors import RunEnded, RunNotFound, StoreError, WrongUse
from outlast.core.identity import check_run_id
from outlast.core.lost import refuse_app
from outlast.core.prices import Prices
from outlast.core.queues import Queue
from outlast.core.records import RunRow
from outlast.core.settings import DidNotHappen, Happened
from outlast.runtime import answering, mending, schedules, steering
from outlast.runtime.declared import row_of_schedule
from outlast.runtime.ends import Ends
from outlast.runtime.following import Readers
from outlast.runtime.infos import ApprovalInfo, RunInfo, info_of
from outlast.runtime.listings import run_filter
from outlast.runtime.lookout import Lookout
from outlast.runtime.messages import check_answer, check_message_id, message
from outlast.runtime.moments import deadline_of, earliest
from outlast.runtime.notices import Notices
from outlast.runtime.queue_infos import QueueInfo, change_queue, queue_info
from outlast.runtime.run import Run
from outlast.runtime.schedules import Schedule
from outlast.runtime.slots import CatchUp, Overlap, spec_of
from outlast.runtime.starting import row_of, start_run
from outlast.runtime.worker import Worker
from outlast.runtime.writer import Writer
from outlast.stores.protocol import Store
from outlast.stores.queue_verbs import DeclareQueue
from outlast.stores.verbs import Answer, Cancel, Done, Failed, Refused

R = TypeVar("R")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

CLIENT_PATIENCE_S = 30.0


class Client:
    """A client of an open store. Made by `App` alone, which opens and closes it."""

    url: str
    version: str
    codec: Codec
    ends: Ends
    readers: Readers
    writer: Writer
    lookout: Lookout | None
    notices: Notices
    prices: Prices
    _loop: asyncio.AbstractEventLoop
    _readers: ThreadPoolExecutor
    _worker: Worker | None
    _declared: set[Queue]

    @property
    def store(self) -> Store:
        """The open store. Raises WrongUse when there is none."""
        raise NotImplementedError

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop on which it was opened. Raises WrongUse when it is not open."""
        self.store  # noqa: B018 - says so
        return self._loop

    async def start(
        self, call: Call[R], *, id: str | None = None, deadline: dt.datetime | float | None = None
    ) -> Run[R]:
        """Start a run of a workflow, or of a single step; return when that is committed.

        `id` makes it findable and the start repeatable: the same workflow and arguments again, by position or by name,
        give the same run. `deadline` is an aware datetime, or seconds from now: a run that has not ended by then is
        cancelled, cleans up, and has failed with RunTimeout; a run that is there already keeps the one that it has.

        Raises RunConflict for an id that is taken by another call, EncodingError (with the path) for
        arguments that cannot be stored, WrongUse for what is not a Call or an id that cannot be one.
        """
        if isinstance(call, Call):
            call.take()  # whatever becomes of it here, it was not forgotten
        self._check_loop()
        python = self._worker.python if self._worker is not None else ""
        row = row_of(call, id, self.codec, self.store.now, version=self.version, python=python)
        row.deadline = earliest(row.deadline, deadline_of(deadline, self.store.now()))
        return Run(self, await start_run(self, row, call.definition, call.terms), call.definition.returns)

    async def get(self, id: str) -> Run[Any]:
        """Return the run of this id. Raises RunNotFound."""
        return Run(self, await self._row(id))

    async def runs(
        self,
        *,
        status: str | Sequence[str] | None = None,
        reason: str | None = None,
        workflow: str | None = None,
        version: str | None = None,
        id_prefix: str | None = None,
        limit: int = 100,
        before: str | None = None,
    ) -> list[RunInfo]:
        """Return runs, newest first.

        `status` is one or several; `reason` is that of stuck runs; `id_prefix` is taken literally. At most `limit`;
        `before` is the id of the last run of the page before. Raises WrongUse for an unknown status or reason.
        """
        wanted = run_filter(status, reason, workflow, version, id_prefix, limit)
        below = (await self._row(before)).pk if before is not None else None
        rows = await self._read(lambda: self.store.runs(wanted, limit=limit, before=below))
        parents = await self._parents(rows)
        return [info_of(row, self, parents) for row in rows]

    async def cancel(self, id: str, *, force: bool = False) -> tuple[str, ...]:
        """Ask a run to end; it cleans up first. Asking again changes nothing. Raises RunNotFound, RunEnded.

        With `force` it ends at once, in whatever state: no `finally`, no compensation and no further step of it runs,
        its worker is refused whatever it still writes and stops it, and children that it waited for are asked to end.
        What an attempt under way has begun may still happen: the `once` steps of which that is true are returned, by
        their identities; nobody will settle them.
        """
        if force:
            return await steering.terminate(self, id)
        row = await self._row(id)
        answer = await self.ask(Cancel(id=id))
        if isinstance(answer, Refused):
            raise RunEnded(f"run {id} ({row.workflow}) cannot be cancelled: {answer.why}")
        self._wake(answer)
        return ()

    async def hold(self, id: str | None = None, *, workflow: str | None = None, version: str | None = None) -> int:
        """Hold runs back, so that no worker claims them until `release`; return how many.

        Those that have not ended and fit all that is given: one by `id`, those of a `workflow`, or those that code of
        this `version` ran last. A run in a worker's memory goes on there until it rests or the worker is drained. What
        is sent to a held run is kept. Raises RunNotFound, WrongUse.
        """
        return await steering.hold(self, True, id, workflow, version)

    async def release(self, id: str | None = None, *, workflow: str | None = None, version: str | None = None) -> int:
        """Give runs free that were held back; return how many. Whichever worker serves them goes on with them.

        Raises RunNotFound, WrongUse.
        """
        return await steering.hold(self, False, id, workflow, version)

    async def move(self, workflow: str, to: str, *, id: str | None = None, version: str | None = None) -> int:
        """Have the runs of a workflow executed as another, such as one that was renamed; return how many.

        Those that have not ended and that no worker has in memory: all, or the one of this `id`, those of one `version`
        of the code. `to` finds their journals: where it does something else, they get stuck as `diverged`, and can be
        moved back and resumed. Raises RunNotFound, WrongUse.
        """
        return await steering.move(self, workflow, to, id, version)

    async def send(self, run: str, name: str, value: Any = None, *, id: str | None = None, early: bool = False) -> str:
        """Send a message to a run, where `outlast.receive(name)` takes it; return its id when that is committed.

        It is kept by the run's id until the run takes it, also across crashes, in the order in which messages were
        sent. `id` makes it repeatable: the same id again is the same message. With `early` it is kept for a run that
        is still to be started. Raises RunEnded, RunNotFound, EncodingError (with the path), WrongUse.
        """
        message_id = check_message_id(id) if id is not None else os.urandom(16).hex()
        verb = message(self.codec, check_run_id(run), name, value, message_id, early)
        answer = await self.ask(verb)
        check_answer(verb, answer)
        self._wake(answer)
        return message_id

    async def approvals(
        self,
        *,
        status: str | None = "open",
        run: str | None = None,
        to: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> list[ApprovalInfo]:
        """Return what runs ask people for, oldest first.

        `status` is `open`, `approved`, `rejected`, `expired`, `withdrawn`, or None for all; `run` is a run id, `to` as
        the workflow said. At most `limit`; `after` is the id of the last approval of the page before. Raises
        RunNotFound, ApprovalNotFound, WrongUse.
        """
        return await answering.find(self, status, run, to, limit, after)

    async def approve(self, id: str, *, by: str = "", note: str = "", form: Any = None) -> ApprovalInfo:
        """Answer an approval with yes; return it as it stands when that is committed.

        `by` says who, `note` is added; `form` is what was filled in: plain JSON, or an object of the class that the
        workflow asked for. Of all who answer one wins. Raises AlreadyAnswered, which says who did; ApprovalNotFound;
        WrongUse where the form is not filled in as asked for, with the fields that it has.
        """
        return await answering.answer(self, id, approved=True, by=by, note=note, form=form)

    async def reject(self, id: str, *, by: str = "", note: str = "", form: Any = None) -> ApprovalInfo:
        """Answer an approval with no; otherwise like `approve`."""
        return await answering.answer(self, id, approved=False, by=by, note=note, form=form)

    async def resume(self, id: str, *, max_tokens: int | None = None, max_cost: float | None = None) -> Run[Any]:
        """Take a failed, cancelled or stuck run up again.

        Its end is dropped, the failed step that caused it, which is tried anew, and what came of that failure; all else
        that is recorded stays. A failure that no step caused comes again, until the workflow's own code is changed.
        `max_tokens` and `max_cost` are its budget from now on, all that it has used included.
        Raises NotResumable (an effect came of the failure or the cancellation, or may have; the run is in doubt, or
        goes on), RunNotFound.
        """
        return await mending.resume(self, id, {"max_tokens": max_tokens, "max_cost": max_cost})

    async def resolve(
        self,
        id: str,
        step: str,
        decision: Happened | DidNotHappen | Literal["fail"],
        *,
        attempt: int | None = None,
        by: str = "",
    ) -> None:
        """Decide an attempt in doubt: `Happened(value)`, `DidNotHappen()` or `"fail"`; for this attempt and no other.

        `step` is its identity (`main/charge#1`), or its name where only one is in doubt. With `attempt` it is refused
        when another one is in doubt by now. `by` says who decides. A worker checks the decision before it goes on: a
        value that is not what the step returns, and a `DidNotHappen()` that was said while the attempt could still
        send something, leave the run stuck, with the reason. Raises NotResumable, RunNotFound.
        """
        await mending.resolve(self, id, step, decision, attempt, by)

    async def fork(self, id: str, step: str, *, new_id: str | None = None, repeat_once: bool = False) -> Run[Any]:
        """Start a new run from what a run had recorded before a step, timer or child. The original is left alone.

        `step` is an identity (`main/charge#1`) or a name, which means the first of that name. Where the original
        went on to begin a `once` step or a child, that would happen again, so `repeat_once=True` must say that this is
        wanted; where it has not ended, too, since both may come to such a step. The same fork again, by `new_id`, gives
        the same run. Raises NotResumable, RunConflict, RunNotFound.
        """
        return await mending.fork(self, id, step, new_id, repeat_once)

    async def queues(self) -> list[QueueInfo]:
        """Return what is on each queue, by name."""
        return [queue_info(state) for state in await self._read(self.store.queues)]

    async def pause_queue(self, name: str, *, by: str = "") -> None:
        """Begin no more runs of a queue; those that are running go on. `by` says who asked. Raises WrongUse."""
        await change_queue(self, name, paused=True, by=by)

    async def resume_queue(self, name: str) -> None:
        """Begin runs of a queue again. Raises WrongUse where there is no such queue."""
        await change_queue(self, name, paused=False)

    async def _declare(self, queue: Queue) -> None:
        """Have the limits of a queue committed, once for each App."""
        if queue not in self._declared:
            await self.ask(DeclareQueue(name=queue.name, limits=queue.limits))
            self._declared.add(queue)

    # -- schedules ---------------------------------------------------------------------------

    async def schedule(
        self,
        name: str,
        call: Call[Any],
        *,
        cron: str | None = None,
        every: float | dt.timedelta | None = None,
        timezone: str = "UTC",
        catch_up: CatchUp = "one",
        catch_up_limit: int = 100,
        grace: float = 60.0,
        overlap: Overlap = "skip",
        paused: bool | None = None,
    ) -> Schedule:
        """Have a call of a workflow, or of a single step, started again and again; return when that is committed.

        - `cron`: five fields (minute, hour, day of month, month, day of week), or six with the second first, in
          `timezone`; or `every`: seconds, from now on.
        - `catch_up`: what becomes of slots that were missed, by more than `grace` seconds, since no worker was there:
          `"skip"` them, start `"one"` run for all of them, or start the last `catch_up_limit` of them (`"all"`), one
          after another unless `overlap` is `"allow"`. Those that are not made up for are counted.
        - `overlap`: what becomes of a slot while the run before has not ended: `"skip"`, `"queue"` or `"allow"`.
        - `paused`: True starts nothing until it is resumed; None leaves a schedule that is there as it is.

        `name` makes it one schedule across the fleet: the same again changes nothing, another call or spec takes its
        place. A slot's run has the id `name@slot`. Raises WrongUse for what makes no sense, EncodingError.
        """
        if isinstance(call, Call):
            call.take()  # whatever becomes of it here, it was not forgotten
        self._check_loop()
        spec = spec_of(cron, every, timezone, catch_up, catch_up_limit, grace, overlap)
        row = row_of_schedule(name, call, spec, self.codec, self.store.now())
        if call.terms is not None and call.terms.queue is not None:
            await self._declare(call.terms.queue)
        return await schedules.put(self, row, paused)

    async def get_schedule(self, name: str) -> Schedule:
        """Return the schedule of this name. Raises ScheduleNotFound."""
        return Schedule(self, await schedules.find(self, name))

    async def schedules(self) -> list[Schedule]:
        """Return all schedules, by name."""
        return [Schedule(self, row) for row in await self._read(self.store.schedules)]

    # -- shared by clients -------------------------------------------------------------------

    async def ask(self, verb: Any, heard: Callable[[Answer | StoreError], None] | None = None) -> Answer:
        """Have a verb of a client committed, and return its answer. Raises StoreError.

        `heard(answer)` is called in any case, also when the caller no longer waits.
        """
        self._check_loop()
        answer = await self.writer.ask(verb, CLIENT_PATIENCE_S, heard)
        if isinstance(answer, Failed):
            raise StoreError(f"{self.url}: {answer.why}")
        return answer

    async def _row(self, id: str) -> RunRow:
        row: RunRow | None = await self._read(self.store.run, check_run_id(id))
        if row is None:
            raise RunNotFound(f"no run has the id {id!r} in {self.url}; `outlast runs` lists them")
        return row

    async def _read(self, function: Callable[[*Ts], T], *args: *Ts) -> T:
        self._check_loop()
        return await asyncio.get_running_loop().run_in_executor(self._readers, function, *args)

    async def _parents(self, rows: Sequence[RunRow]) -> dict[int, str]:
        """Return the run ids of the parents of child runs, by key."""

        return await self._ids({row.parent for row in rows if row.parent is not None})

    async def _ids(self, pks: set[int]) -> dict[int, str]:
        """Return the run ids of runs, by key."""

        def look(pks: set[int]) -> dict[int, str]:
            found = ((pk, self.store.run_by_pk(pk)) for pk in pks)
            return {pk: row.id for pk, row in found if row is not None}

        return await self._read(look, pks) if pks else {}

    def _executes(self, pk: int) -> bool:
        return self._worker is not None and pk in self._worker.executions

    def _wake(self, answer: Answer) -> None:
        if self._worker is not None and isinstance(answer, Done):
            self._worker.wake(answer.woke)
            self._worker.claims.look()
        self.ends.look_soon()
        self.readers.tell(0)

    def _check_loop(self) -> None:
        """Say so when a coroutine of another event loop asks: it would wait for ever."""
        refuse_app()
        self.store  # noqa: B018 - says so when the App is not open
        if asyncio.get_running_loop() is not self._loop:
            raise WrongUse(
                "this App was opened in another event loop; open one here, or use outlast.sync from several threads"
            )
