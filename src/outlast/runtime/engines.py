"""From a run's row and journal to its engine: which body executes it, and with what arguments."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from outlast.core.body import AsyncBody
from outlast.core.definitions import Step
from outlast.core.engine import Engine
from outlast.core.errors import DecodingError, OutlastError
from outlast.core.functions import Definition
from outlast.core.native_engine import NativeEngine
from outlast.core.records import Record, RunRow
from outlast.core.sagas import compensated, compensated_in_thread
from outlast.core.workflows import Workflow
from outlast.runtime.moves import tell_if_moved
from outlast.runtime.native import TaskBody
from outlast.runtime.threads import ThreadBody

if TYPE_CHECKING:
    from outlast.runtime.worker import Worker


def engine_of(worker: Worker, row: RunRow, definition: Definition[..., Any], records: Sequence[Record]) -> Engine:
    """Make the engine of a run. Raises DecodingError for arguments that cannot be rebuilt here."""
    tell_if_moved(worker.notices, row, definition)
    try:  # each argument is decoded by its own annotation
        args, kwargs = worker.codec.decode(row.input, definition.input_type)
    except OutlastError as error:
        raise DecodingError(f"run {row.id}: its arguments cannot be rebuilt here: {error}") from None
    if isinstance(definition, Workflow) and definition.native:
        return _native(worker, row, definition, records, args, kwargs)
    if definition.is_async or isinstance(definition, Step):
        function = definition.call if isinstance(definition, Step) else definition.fn

        async def main() -> Any:
            return await compensated(engine, lambda: function(*args, **kwargs))

        body = AsyncBody(main, soon=partial(worker.loop.call_soon, context=contextvars.Context()))
        engine = Engine(row, records, worker.codec, body)
        engine.loop.on_trespass = lambda: _tell(worker, engine)
        engine.on_forgotten = partial(_tell_forgotten, worker, row)
        engine.function = definition.fn
        return engine

    def run() -> Any:
        return compensated_in_thread(engine, lambda: definition.fn(*args, **kwargs))

    thread = ThreadBody(run, worker.loop.call_soon_threadsafe, f"outlast-{row.id}")
    engine = Engine(row, records, worker.codec, thread)
    engine.on_forgotten = partial(_tell_forgotten, worker, row)
    engine.function = definition.fn
    return engine


def _native(
    worker: Worker,
    row: RunRow,
    definition: Workflow[..., Any],
    records: Sequence[Record],
    args: Sequence[Any],
    kwargs: dict[str, Any],
) -> NativeEngine:
    async def main() -> Any:
        return await compensated(engine, lambda: definition.fn(*args, **kwargs))

    body = TaskBody(main, worker.native_bodies)
    engine = NativeEngine(row, records, worker.codec, body, resumes=definition.resumes)
    body.worker = worker
    engine.may_be_set_back = worker.setbacks.may_follow(row.pk, engine.last_seq)
    engine.on_forgotten = partial(_tell_forgotten, worker, row)
    engine.function = definition.fn
    return engine


def _tell(worker: Worker, engine: Engine) -> None:
    """Let an engine look at itself soon. Called in whatever thread somebody touched its body from."""
    worker.loop.call_soon_threadsafe(engine.turned, context=contextvars.Context())


def _tell_forgotten(worker: Worker, row: RunRow, key: str) -> None:
    """Give a notice soon. Called in any thread, by the garbage collector in the midst of whatever goes on there."""
    told = partial(worker.notices, "call.not_awaited", run=row.id, call=key, workflow=row.workflow)
    with contextlib.suppress(RuntimeError):  # the loop is closed
        worker.loop.call_soon_threadsafe(told, context=contextvars.Context())
