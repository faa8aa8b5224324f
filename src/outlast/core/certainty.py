"""What a journal says for certain of `once` attempts: which are open, and which are known to have done nothing.

That a failed step did nothing is a fact that its outcome's note keeps.
Who takes a run up again may have another codec than its workers, so this cannot rest on the recorded error, which
is theirs to read. Where the note does not say so, the effect may have happened.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from outlast.core.records import Kind, Record

SETTLES = frozenset({Kind.STEP, Kind.LATE, Kind.ATTEMPT})
"""What follows an intent once its attempt is no longer in doubt. (A resolution says how it will be settled.)"""

DID_NOT_HAPPEN = "did not happen"
CONFIRMED = "confirmed: did not happen"
CONFIRMED_HAPPENED = "confirmed: happened"
NOT_RECORDED = "its worker ended before its outcome was recorded"
"""Why an attempt is in doubt whose intent does not say why."""


def open_intents(records: Sequence[Record]) -> list[Record]:
    """Return the intents whose attempts have no outcome in the journal, in order."""
    return _without(records, SETTLES)


def undecided_intents(records: Sequence[Record]) -> list[Record]:
    """Return those of the open intents that nobody has decided either."""
    return _without(records, SETTLES | {Kind.RESOLUTION})


def _without(records: Sequence[Record], settling: frozenset[Kind]) -> list[Record]:
    found: dict[str, Record] = {}
    for record in records:
        if record.kind is Kind.INTENT:
            found[record.key] = record
        elif record.kind in settling:
            found.pop(record.key, None)
    return list(found.values())


def beside(annotations: dict[str, Any], note: str) -> dict[str, Any]:
    """Return the facts that a step added, together with that one if the note is it. Nobody else may state it."""
    facts = {name: fact for name, fact in annotations.items() if name != DID_NOT_HAPPEN}
    return facts | {DID_NOT_HAPPEN: True} if note == DID_NOT_HAPPEN else facts


def may_have_happened(outcome: Record) -> bool:
    """Tell whether a `once` step that failed may have had its effect: then nothing may fire it again by itself."""
    note = outcome.note
    if not note.startswith("{"):
        return note not in (DID_NOT_HAPPEN, CONFIRMED)
    try:
        facts = msgspec.json.decode(note)
    except msgspec.DecodeError:
        return True
    return facts.get(DID_NOT_HAPPEN) is not True
