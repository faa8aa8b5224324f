"""`outbox`: a run is started by the user's own transaction, and by nothing else."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, overload

from outlast.codec import Codec, JsonCodec
from outlast.codec.users_codec import held_to_its_promises
from outlast.core.definitions import Call
from outlast.core.errors import WrongUse
from outlast.core.lost import refuse_app
from outlast.core.records import RunRow
from outlast.runtime import relay
from outlast.runtime.clock import SystemClock
from outlast.runtime.limits import check_codec
from outlast.runtime.starting import row_of
from outlast.stores.databases.drivers import is_async_transaction, transaction_of
from outlast.stores.databases.driving import run_blocking
from outlast.stores.databases.outbox import post
from outlast.stores.databases.source import Transaction


class BlockingTransaction(Protocol):
    """A transaction of a blocking driver."""

    @property
    def commit(self) -> Callable[[], None]: ...


class AsyncTransaction(Protocol):
    """A transaction of an async driver."""

    @property
    def commit(self) -> Callable[[], Coroutine[Any, Any, None]]: ...


@overload
def outbox(tx: AsyncTransaction, /, *, codec: Codec | None = None) -> AsyncOutbox: ...


@overload
def outbox(tx: BlockingTransaction, /, *, codec: Codec | None = None) -> Outbox: ...


def outbox(tx: Any, /, *, codec: Codec | None = None) -> Any:
    """Start runs inside your own transaction: they are started when it commits, and not if it is rolled back.

    `tx` is your open transaction: a `Connection` of sqlite3 or psycopg, a `Connection` or `Session` of SQLAlchemy, or
    an async one of these, and what a transactional step is given. `codec` is that of the App that executes the runs; by
    default JSON.

    `outbox(tx).start(call, id="order-55")` notes the run in a table `outlast_outbox` and returns its id; over an async
    transaction it is awaited. A worker whose App has `outbox=` that database starts it. `id` is as in `App.start`. An
    id that is taken by another call is told by the notice `outbox.refused`, and the row stays with its reason.

    Raises WrongUse for what is no transaction, or an autocommit connection on which none is open. `start` raises
    WrongUse and EncodingError as `App.start` does, and StoreError where the table is missing.
    """
    chosen = held_to_its_promises(codec) if codec is not None else JsonCodec()
    check_codec(chosen, "outlast.outbox")
    transaction = transaction_of(tx)
    if transaction.autocommits:
        raise WrongUse(
            "outlast.outbox was given a connection in autocommit mode, on which no transaction is open, so a run would "
            "be started whatever becomes of the rest; begin a transaction first"
        )
    kind = AsyncOutbox if is_async_transaction(tx) else Outbox
    return kind(transaction, chosen)


class Outbox:
    """What `outbox` makes of a blocking transaction."""

    def __init__(self, transaction: Transaction, codec: Codec) -> None:
        self._transaction = transaction
        self._codec = codec

    def start(self, call: Call[Any], *, id: str | None = None) -> str:
        """Have a run of a workflow, or of a single step, started when the transaction commits; return its id."""
        row = _row(call, id, self._codec)
        run_blocking(post(self._transaction, row))
        relay.expect_rows()
        return row.id


class AsyncOutbox:
    """What `outbox` makes of an async transaction."""

    def __init__(self, transaction: Transaction, codec: Codec) -> None:
        self._transaction = transaction
        self._codec = codec

    async def start(self, call: Call[Any], *, id: str | None = None) -> str:
        """Have a run of a workflow, or of a single step, started when the transaction commits; return its id."""
        row = _row(call, id, self._codec)
        await post(self._transaction, row)
        relay.expect_rows()
        return row.id


def _row(call: Call[Any], id: str | None, codec: Codec) -> RunRow:
    if isinstance(call, Call):
        call.take()  # whatever becomes of it here, it was not forgotten
    refuse_app()
    row = row_of(call, id, codec, SystemClock().wall, version="")
    if row.deadline is not None:
        raise WrongUse(
            "outlast.outbox notes no timeout= of a run: when it is started is not known yet; set a limit in the "
            "workflow, with asyncio.timeout"
        )
    if row.dedup or row.debounce:
        raise WrongUse("dedup= and debounce= look into Outlast's store, and an outbox does not; give the run an id=")
    return row
