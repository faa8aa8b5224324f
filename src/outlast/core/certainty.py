"""Whether a failed `once` step is known to have done nothing: a fact that its outcome's note keeps.

Who takes a run up again may have another codec than its workers, so this cannot rest on the recorded error, which
is theirs to read. Where the note does not say so, the effect may have happened.
"""

from __future__ import annotations

from typing import Any

import msgspec

from outlast.core.records import Record

DID_NOT_HAPPEN = "did not happen"
CONFIRMED = "confirmed: did not happen"


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
