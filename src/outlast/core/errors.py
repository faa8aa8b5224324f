"""Every error that Outlast raises, under one root.

Each message says what happened, to which run and step, and what to do now.
Two signals at the end derive from `BaseException`: they stop a run from
outside and no `except Exception` in user code may hold them up.
"""

from __future__ import annotations

import datetime as dt


class OutlastError(Exception):
    """Root of all errors that Outlast raises. What your own code raises is none of them, and is raised as it is."""


# -- wrong use -------------------------------------------------------------


class WrongUse(OutlastError):
    """The library was called in a way that could lose durability; the message names the right way."""


class LostRun(WrongUse):
    """A step or an operation was called from a thread or context that no longer belongs to its run."""


class NotDeterministic(WrongUse):
    """A workflow body tried something that replay cannot repeat (I/O, threads, executors); put it in a step."""


class Spinning(OutlastError):
    """A workflow body keeps yielding to itself while nothing it could wait for is pending."""


# -- runs ------------------------------------------------------------------


class RunNotFound(OutlastError):
    """No run has this id in this store."""


class ScheduleNotFound(OutlastError):
    """No schedule has this name in this store."""


class RunConflict(OutlastError):
    """The run id exists with another workflow or other arguments; nothing was changed."""


class RunEnded(OutlastError):
    """The run has already ended, so it cannot be cancelled."""


class RunCancelled(OutlastError):
    """The run whose result was asked for was cancelled."""


class RunStuck(OutlastError):
    """The run whose result was asked for needs a person; `reason` says why.

    `reason` is one of `in_doubt`, `diverged`, `crash_loop`, `undecodable`.
    """

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class ApprovalNotFound(OutlastError):
    """No approval has this id in this store."""


class AlreadyAnswered(OutlastError):
    """The approval is no longer open: it was answered (the message says by whom), expired, or was withdrawn.

    `status` says how it stands, `by` who answered.
    """

    def __init__(self, message: str, status: str = "", by: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.by = by


class RunTimeout(OutlastError, TimeoutError):
    """A run had not ended by its deadline, so its body was cancelled. Also a `TimeoutError`.

    `deadline` is that moment, an aware datetime.
    """

    def __init__(self, message: str = "", *, deadline: dt.datetime | None = None) -> None:
        super().__init__(message)
        self.deadline = deadline


class NotResumable(OutlastError):
    """`resume`, `resolve` or `fork` does not apply to the run as it stands; the message names what does."""


class Diverged(OutlastError):
    """The workflow's code no longer does what its journal recorded; the text shows both sides.

    It is not raised to callers: the run becomes `stuck: diverged`, and this is its detail.
    """


# -- steps -----------------------------------------------------------------


class StepError(OutlastError):
    """Stands in for a recorded exception that cannot be rebuilt as its own type.

    `type_name` is the original type (`module:qualname`), `text` its message. Also what a step ends with that cancelled
    itself or asked the process to exit, since neither is an answer.
    """

    def __init__(self, message: str = "", *, type_name: str = "", text: str = "") -> None:
        super().__init__(message)
        self.type_name = type_name
        self.text = text


class StepTimeout(OutlastError, TimeoutError):
    """An attempt of a step ran longer than its `timeout`. Also a `TimeoutError`."""


class InDoubt(OutlastError):
    """A `once` attempt ended without a certain outcome and a person decided that its step fails."""


class BudgetExceeded(OutlastError):
    """A step that calls a model was not begun, since its run has used up its `max_tokens` or `max_cost`.

    Or nobody can say whether it has: a model has no price, or a call has told nothing of what it used.

    `spent` is what it has used, `limit` the budget. Raised where the workflow awaits the step.
    """

    def __init__(self, message: str = "", *, spent: float = 0, limit: float = 0) -> None:
        super().__init__(message)
        self.spent = spent
        self.limit = limit


class StreamFull(OutlastError):
    """A step writes to streams faster than the store takes it, and never waits; `await stream.drain()` now and then."""


# -- values ----------------------------------------------------------------


class EncodingError(OutlastError):
    """A value cannot be stored; the message holds the path to the part that cannot."""


class PayloadTooLarge(EncodingError):
    """The encoded value is larger than the codec's limit (16 MiB unless set)."""


class DecodingError(OutlastError):
    """A stored value cannot be rebuilt here, for example since its type is not imported."""


# -- stores ----------------------------------------------------------------


class StoreError(OutlastError):
    """Root of what can go wrong with a store."""


class StoreUnavailable(StoreError):
    """The store cannot be reached or written now (locked, full disk, connection lost); trying again may help."""


class NotAStore(StoreError):
    """The file or database is not an Outlast store, or belongs to a newer version of Outlast."""


class ReadOnlyStore(StoreError):
    """The store can be read but not written."""


class RecordRefused(StoreError):
    """The store refused one record for what it holds; its neighbours in the batch were written."""


# -- signals that stop a run from outside -----------------------------------


class TurnOver(BaseException):
    """Raised by `outlast.continue_as` in a body, whose turn it ends; no `except Exception` may hold that up."""


class Suspended(BaseException):
    """Raised by any operation of a run that was stopped from outside; nothing it starts takes effect."""
