"""What a checkpointer has committed: on the loop of its client, in the order in which a graph has given it.

**Writes that come early.** A graph hands in a checkpoint without waiting for it, unless it is told to, and goes on; the
writes of the next tasks may be here before the checkpoint that they belong to, which waits for the one before it. Such
writes wait for it. When a checkpoint was refused, those after it will not come, and no write of the same run of the
graph waits any more.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any

from msgspec.structs import replace

from outlast.adapters.langgraph.clients import Asked
from outlast.adapters.langgraph.errors import ThreadConflict, ThreadOwned
from outlast.core.effects import InStep
from outlast.core.errors import OutlastError
from outlast.core.identity import here
from outlast.stores.checkpoint_verbs import (
    ChannelValue,
    CopyThread,
    NoCheckpoint,
    PartsMissing,
    PutCheckpoint,
    PutWrites,
    Superseded,
)
from outlast.stores.verbs import Answer, Fenced, Refused

EARLY_WRITES_PATIENCE_S = 10.0
OWNERS_KEPT = 1_000
RUNS_KEPT = 1_000

Place = tuple[str, str, str]
"""Of a checkpoint: its thread, namespace and id."""
Owner = tuple[str, int, int]
"""(worker, run, claim): in whose name the run of a thread writes to it."""


class Writing:
    """The verbs of one checkpointer. All but the constructor is called on the client's loop.

    `owner` is in whose name the thread of the run `run_id` is written to.
    """

    def __init__(self, run_id: str = "", owner: Owner | None = None) -> None:
        self._given = (run_id, owner)
        self._early: dict[Place, list[tuple[object, asyncio.Future[None]]]] = {}  # each with its run of a graph
        self._refused: OrderedDict[int, object] = OrderedDict()  # runs of graphs of which a checkpoint was refused
        self._owners: dict[tuple[str, int], Owner] = {}  # by run id and claim

    async def put(self, app: Asked, verb: PutCheckpoint, parts: tuple[ChannelValue, ...], run: object | None) -> None:
        """Commit a checkpoint. `parts` are those that the store may have already; it is asked first.

        `run` is that of the graph which puts it.
        """
        row = verb.checkpoint
        try:
            owner = self._owner(app, row.thread)
            answer = await app.ask(_owned(verb, owner))
            if isinstance(answer, PartsMissing):
                verb = replace(verb, values=(*verb.values, *parts))
                answer = await app.ask(_owned(verb, owner))
            _check(answer, row.thread, row.ns, row.parent)
        except OutlastError:
            self._refuse(run)
            raise
        _wake(self._early.get((row.thread, row.ns, row.id), []))

    def _refuse(self, run: object | None) -> None:
        """Let no write of this run wait any more."""
        self._refused[id(run)] = run  # kept, so that no other gets its number
        while len(self._refused) > RUNS_KEPT:
            self._refused.popitem(last=False)
        for waiting in self._early.values():
            _wake([(of, future) for of, future in waiting if of is run])

    async def put_writes(self, app: Asked, verb: PutWrites, run: object | None) -> None:
        """Commit what a task has written. `run` is that of the graph whose task it is."""
        owner = self._owner(app, verb.thread)
        verb = _owned(verb, owner)
        answer = await app.ask(verb)
        if isinstance(answer, NoCheckpoint) and run is not None:
            answer = await self._put_early(app, verb, run)
        _check(answer, verb.thread, verb.ns, verb.checkpoint)

    async def _put_early(self, app: Asked, verb: PutWrites, run: object) -> Answer:
        place = (verb.thread, verb.ns, verb.checkpoint)
        waiting = self._early.setdefault(place, [])
        come = asyncio.get_running_loop().create_future()
        waiting.append((run, come))
        try:
            answer = await app.ask(verb)  # it may have come meanwhile
            if isinstance(answer, NoCheckpoint) and id(run) not in self._refused:
                await asyncio.wait([come], timeout=EARLY_WRITES_PATIENCE_S)
                answer = await app.ask(verb)
            return answer
        finally:
            waiting[:] = [one for one in waiting if one[1] is not come]
            if not waiting:
                self._early.pop(place, None)

    async def copy(self, app: Asked, verb: CopyThread) -> None:
        """Commit a copy of a thread."""
        answer = await app.ask(verb)
        if isinstance(answer, Refused):
            raise ThreadConflict(f"thread {verb.source!r} was not copied: {answer.why}", verb.target)

    def _owner(self, app: Asked, thread: str) -> Owner | None:
        """Return in whose name is written, where that is in a step of the run of this id; None from outside."""
        if self._given[0] == thread:
            return self._given[1]
        place = here.get()
        if not isinstance(place, InStep) or place.run_id != thread:
            return None
        key = (place.run_id, place.fence)
        if key not in self._owners:
            row = app.store.run(thread)
            if row is None or row.owner is None or row.claim != place.fence:
                raise ThreadOwned(_fenced(thread, "another worker has it by now"), thread)
            if len(self._owners) >= OWNERS_KEPT:
                self._owners.clear()
            self._owners[key] = (row.owner, row.pk, row.claim)  # a claim is of one worker for good
        return self._owners[key]


def _owned(verb: Any, owner: Owner | None) -> Any:
    if owner is None:
        return verb
    worker, run, claim = owner
    return replace(verb, worker=worker, run=run, claim=claim)


def _wake(waiting: list[tuple[object, asyncio.Future[None]]]) -> None:
    for _, future in waiting:
        if not future.done():
            future.set_result(None)


def _check(answer: Answer, thread: str, ns: str, checkpoint: str | None) -> None:
    """Raise what says that nothing was written."""
    where = f"thread {thread!r}" + (f" (namespace {ns!r})" if ns else "")
    match answer:
        case Superseded(head=None):
            raise ThreadConflict(f"{where} was deleted while a graph was running on it; nothing more is kept", thread)
        case Superseded(head=head):
            came = f"after checkpoint {checkpoint}" if checkpoint else "while it was empty"
            raise ThreadConflict(
                f"{where} has moved on: another writer has put checkpoint {head}, and this one goes on from what it "
                f"read {came}. Nothing was written over it. Look at its state (get_state): where the input of this "
                "call is in it, go on with invoke(None, config), else invoke the graph again",
                thread,
            )
        case NoCheckpoint():
            raise ThreadConflict(
                f"{where} has no checkpoint {checkpoint}, to which these writes belong: the thread was deleted "
                "meanwhile, or the checkpoint was refused",
                thread,
            )
        case PartsMissing():
            raise ThreadConflict(f"{where} was deleted or pruned just while a checkpoint was put; try again", thread)
        case Refused(why=why):
            raise ThreadOwned(f"{why}. Use another thread, or wait for the run", thread)
        case Fenced(why=why):
            raise ThreadOwned(_fenced(thread, why), thread)
        case _:
            pass


def _fenced(thread: str, why: str) -> str:
    return f"run {thread!r}, whose thread this is, is no longer executed here: {why}"
