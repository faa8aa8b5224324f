"""Outlast: durable execution for Python agents, in a library.

Write an agent as a plain function; when its process dies, another process notices,
takes the run over, replays what is done from a journal, and finishes it.
"""

from typing import TYPE_CHECKING

from outlast.core.definitions import Call
from outlast.core.errors import (
    AlreadyAnswered,
    ApprovalNotFound,
    BudgetExceeded,
    DecodingError,
    Diverged,
    EncodingError,
    InDoubt,
    LostRun,
    NotAStore,
    NotDeterministic,
    NotResumable,
    OutlastError,
    PayloadTooLarge,
    ReadOnlyStore,
    RunCancelled,
    RunConflict,
    RunEnded,
    RunNotFound,
    RunStuck,
    RunTimeout,
    ScheduleNotFound,
    Spinning,
    StepError,
    StepTimeout,
    StoreError,
    StoreUnavailable,
    StreamFull,
    WrongUse,
)
from outlast.core.marking import effect
from outlast.core.prices import Price
from outlast.core.queues import Queue, Rate
from outlast.core.retry import Retry
from outlast.core.settings import DidNotHappen, Happened, Unknown
from outlast.core.usage import Tokens
from outlast.runtime.app import App
from outlast.runtime.approvals import Approval, approve
from outlast.runtime.declared import schedule
from outlast.runtime.decorators import step, workflow
from outlast.runtime.endings import compensate, continue_as
from outlast.runtime.following import StreamItem, StreamReset
from outlast.runtime.infos import ApprovalInfo, MessageInfo, RunInfo, StepInfo
from outlast.runtime.lines import queue, rate
from outlast.runtime.mapping import map
from outlast.runtime.messages import receive, send
from outlast.runtime.notices import Notice
from outlast.runtime.operations import (
    annotate,
    attempt,
    call,
    current,
    fence,
    heartbeat,
    idempotency_key,
    now,
    patched,
    random,
    scope,
    start,
    uuid4,
)
from outlast.runtime.outbox import outbox
from outlast.runtime.publishing import Stream, publish, stream
from outlast.runtime.queue_infos import QueueInfo
from outlast.runtime.run import Run
from outlast.runtime.run_usage import Usage, record_usage
from outlast.runtime.schedules import Schedule, ScheduleInfo
from outlast.runtime.sleeping import sleep_until
from outlast.runtime.transactions import transaction

if TYPE_CHECKING:
    from outlast import sync as sync
else:

    def __getattr__(name: str) -> object:
        """Import `outlast.sync` when it is first used: many programs never do."""
        if name == "sync":
            import importlib  # noqa: PLC0415 - only here

            return importlib.import_module("outlast.sync")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__version__ = "0.1.0"

__all__ = [
    "AlreadyAnswered",
    "App",
    "Approval",
    "ApprovalInfo",
    "ApprovalNotFound",
    "BudgetExceeded",
    "Call",
    "DecodingError",
    "DidNotHappen",
    "Diverged",
    "EncodingError",
    "Happened",
    "InDoubt",
    "LostRun",
    "MessageInfo",
    "NotAStore",
    "NotDeterministic",
    "NotResumable",
    "Notice",
    "OutlastError",
    "PayloadTooLarge",
    "Price",
    "Queue",
    "QueueInfo",
    "Rate",
    "ReadOnlyStore",
    "Retry",
    "Run",
    "RunCancelled",
    "RunConflict",
    "RunEnded",
    "RunInfo",
    "RunNotFound",
    "RunStuck",
    "RunTimeout",
    "Schedule",
    "ScheduleInfo",
    "ScheduleNotFound",
    "Spinning",
    "StepError",
    "StepInfo",
    "StepTimeout",
    "StoreError",
    "StoreUnavailable",
    "Stream",
    "StreamFull",
    "StreamItem",
    "StreamReset",
    "Tokens",
    "Unknown",
    "Usage",
    "WrongUse",
    "annotate",
    "approve",
    "attempt",
    "call",
    "compensate",
    "continue_as",
    "current",
    "effect",
    "fence",
    "heartbeat",
    "idempotency_key",
    "map",
    "now",
    "outbox",
    "patched",
    "publish",
    "queue",
    "random",
    "rate",
    "receive",
    "record_usage",
    "schedule",
    "scope",
    "send",
    "sleep_until",
    "start",
    "step",
    "stream",
    "transaction",
    "uuid4",
    "workflow",
]
