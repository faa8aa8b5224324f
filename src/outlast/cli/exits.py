"""The exit codes of `outlast`: one table, which `outlast --help` shows."""

from __future__ import annotations

from enum import IntEnum

from outlast.core.errors import (
    AlreadyAnswered,
    ApprovalNotFound,
    EncodingError,
    NotResumable,
    RunConflict,
    RunEnded,
    RunNotFound,
    ScheduleNotFound,
    StoreError,
    WrongUse,
)


class ExitCode(IntEnum):
    """What an exit code means; see `MEANINGS`."""

    OK = 0
    FAILED = 1
    WRONG_USE = 2
    NOT_FOUND = 3
    UNAVAILABLE = 4
    TIMED_OUT = 124
    INTERRUPTED = 130
    BROKEN_PIPE = 141
    TERMINATED = 143


MEANINGS = {
    ExitCode.OK: "done (a worker: stopped by one SIGTERM or Ctrl-C)",
    ExitCode.FAILED: "the run did not succeed; doctor: something needs a person",
    ExitCode.WRONG_USE: "wrong use, or not possible as the run stands",
    ExitCode.NOT_FOUND: "no run, approval, queue or schedule is known by this id or name",
    ExitCode.UNAVAILABLE: "the store cannot be reached, or is no store",
    ExitCode.TIMED_OUT: "--timeout ended the waiting, not the run",
    ExitCode.INTERRUPTED: "Ctrl-C (a worker: the second one)",
    ExitCode.BROKEN_PIPE: "the output cannot be written: its reader went away, or the disk is full",
    ExitCode.TERMINATED: "a worker got a second SIGTERM",
}

_WRONG_USE = (WrongUse, RunConflict, RunEnded, NotResumable, AlreadyAnswered, EncodingError)


def exit_code_of(error: BaseException) -> ExitCode:
    """Return the code with which a command ends that was stopped by this error."""
    match error:
        case RunNotFound() | ApprovalNotFound() | ScheduleNotFound():
            return ExitCode.NOT_FOUND
        case StoreError():
            return ExitCode.UNAVAILABLE
        case _ if isinstance(error, _WRONG_USE):
            return ExitCode.WRONG_USE
        case _:
            return ExitCode.FAILED


def exit_code_table() -> str:
    """Return the table for `outlast --help`, a line for each code."""
    return "\n".join(f"{code.value:>4}  {meaning}" for code, meaning in MEANINGS.items())
