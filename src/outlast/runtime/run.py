"""A handle on one run."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from outlast.core.amounts import is_number
from outlast.core.arguments import check_flag, check_name, check_whole, wrong
from outlast.core.errors import DecodingError, RunCancelled, RunNotFound, RunStuck
from outlast.core.frames import add_note, where_of
from outlast.core.records import Kind, RunRow
from outlast.core.transitions import ENDED, Status
from outlast.runtime import registry
from outlast.runtime.following import StreamItem, StreamReset, decoded, follow
from outlast.runtime.held_up import queue_states, why_held_up
from outlast.runtime.infos import ApprovalInfo, MessageInfo, RunInfo, StepInfo, info_of, shown_value, steps_of
from outlast.runtime.run_usage import Usage, usage_of
from outlast.runtime.seen import seen_workers, standing, worker_command

if TYPE_CHECKING:
    from outlast.runtime.client import Client
    from outlast.stores.protocol import Store

R = TypeVar("R")


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
        if timeout is not None and not (is_number(timeout) and timeout >= 0):
            raise wrong("run.result", "timeout", timeout, "a number of seconds, not negative")
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

        def look(store: Store) -> str:
            held_up = why_held_up(row, queue_states(store, [row]), store.now())
            return standing(row, seen_workers(store), worker_command(row, app.url), held_up)

        says = await app._read(look, app.store)
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
        check_whole("run.steps", "after", after)
        if limit is not None:
            check_whole("run.steps", "limit", limit)
        row = await self._fresh()
        records = await self._app._read(self._app.store.records, row.pk)
        steps = [s for s in steps_of(records, self._app) if s.seq > after]
        return steps if limit is None else steps[:limit]

    async def send(self, name: str, value: Any = None, *, id: str | None = None) -> str:
        """Send it a message, which `outlast.receive(name)` takes in its workflow; see `App.send`."""
        return await self._app.send(self.id, name, value, id=id)

    async def messages(self) -> list[MessageInfo]:
        """Return the messages that were sent to it and that it has not taken, oldest first; also after its end."""
        row = await self._fresh()
        return [
            MessageInfo(item.key, shown_value(item.value, self._app), item.message_id, item.created)
            for loaded in await self._app._read(self._app.store.load, [row.pk])
            for item in loaded.inbox
            if item.kind is Kind.MESSAGE
        ]

    async def approvals(self, *, status: str | None = "open") -> list[ApprovalInfo]:
        """Return what it asks people for, oldest first; see `App.approvals`."""
        return await self._app.approvals(run=self.id, status=status, limit=10_000)

    async def usage(self, *, children: bool = False) -> Usage:
        """Return what it has used of models: spent, spent again by retries, and saved by replay; see `Usage`.

        With `children` it is that of its child runs, and theirs, too. Raises RunNotFound.
        """
        check_flag("run.usage", "children", children)
        row = await self._fresh()
        return await self._app._read(usage_of, self._app.store, row, self._app.prices, children)

    async def cancel(self, *, force: bool = False) -> tuple[str, ...]:
        """Ask the run to end: its body gets CancelledError where it waits, and cleans up first.

        Returns when the request is committed. With `force` it ends at once, without any clean-up, and the `once` steps
        that may still have their effect are returned; see `App.cancel`. Raises RunEnded, RunNotFound.
        """
        return await self._app.cancel(self.id, force=force)

    def stream(
        self, name: str, *, after: int = 0, final: bool = False, type: Any = Any
    ) -> AsyncIterator[StreamItem[Any] | StreamReset]:
        """Read a stream of the run: `async for item in run.stream("tokens")`, what is there and what comes.

        Gives a `StreamItem` with `position` and `value` for each item, in order, and ends when the run has ended or is
        stuck. Reading may begin anywhere: `after` is the position of the last item that is known already. Where a step
        is tried again, a `StreamReset` says to drop all items after its `position`, and what is valid follows. With
        `final` only what can no longer change is given: no item before the outcome of the step that wrote it (and of
        those that wrote before it), and no reset, unless the run is resumed. `type` is what the values are to be.
        Raises RunNotFound when the run was deleted, WrongUse for a name or a position that cannot be.
        """
        check_name(name, "name a stream")
        check_whole("run.stream", "after", after)
        self._app._check_loop()
        decode = decoded(self._app, self.id, name, type)
        return follow(self._app, self._row, name, after, decode, final=final)

    async def value(self, name: str, default: Any = None, *, type: Any = Any) -> Any:
        """Return the value that the run published last as `name`, `default` where it has published none.

        `type` is what the value is to be. Raises RunNotFound, DecodingError.
        """
        check_name(name, "name a value")
        data = (await self._values()).get(name)
        return default if data is None else self._app.codec.decode(data, type)

    async def values(self) -> dict[str, Any]:
        """Return all that the run has published, by name. Raises RunNotFound, DecodingError."""
        return {name: self._app.codec.decode(data) for name, data in (await self._values()).items()}

    async def _values(self) -> dict[str, bytes]:
        found: dict[str, bytes] = await self._app._read(self._app.store.values, self._row.pk)
        if not found:
            await self._fresh()  # says so where the run is gone
        return found

    async def _fresh(self) -> RunRow:
        row: RunRow | None = await self._app._read(self._app.store.run_by_pk, self._row.pk)
        if row is None:
            raise RunNotFound(f"run {self.id} is no longer in the store (it was pruned)")
        return row


def _is_over(row: RunRow) -> bool:
    return row.status in ENDED or row.status is Status.STUCK
