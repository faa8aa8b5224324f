"""Which runs a listing shows."""

from __future__ import annotations

from collections.abc import Sequence

from outlast.core.arguments import check_choice, check_text, check_whole, wrong
from outlast.core.transitions import Reason, Status
from outlast.stores.protocol import RunFilter
from outlast.stores.rules import INDEXED_MAX_BYTES

STATUSES = tuple(status.value for status in Status)
REASONS = tuple(reason.value for reason in Reason)


def run_filter(
    status: str | Sequence[str] | None,
    reason: str | None,
    workflow: str | None,
    version: str | None,
    id_prefix: str | None,
    limit: int,
) -> RunFilter:
    """Return what `App.runs` was asked for. Raises WrongUse."""
    call = "app.runs"
    for name, text in (("workflow", workflow), ("version", version), ("id_prefix", id_prefix)):
        if text is not None:
            check_text(call, name, text, INDEXED_MAX_BYTES)
    check_whole(call, "limit", limit)
    return RunFilter(
        statuses=None if status is None else _statuses(call, status),
        reason=None if reason is None else Reason(check_choice(call, "reason", reason, REASONS)),
        workflow=workflow,
        version=version,
        id_prefix=id_prefix,
    )


def _statuses(call: str, status: str | Sequence[str]) -> tuple[Status, ...]:
    given: object = status
    if isinstance(given, str):
        return (Status(check_choice(call, "status", given, STATUSES)),)
    if not isinstance(given, Sequence | set | frozenset):
        raise wrong(call, "status", given, f"one or several of {', '.join(STATUSES)}")
    return tuple(Status(check_choice(call, "status", each, STATUSES)) for each in given)
