"""How soon a run's records are to be committed, and where its row says so.

- `sync`: before anything leaves the run. The only one under which `once` means once.
- `async`: soon; an `idempotent` step does not wait for it.
- `exit`: when the run rests or ends.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from outlast.core.errors import WrongUse

OPTION = "durability"


class Durability(StrEnum):
    """See the top of this file."""

    SYNC = "sync"
    ASYNC = "async"
    EXIT = "exit"


def durability(value: Any) -> Durability:
    """Return the durability of this name. Raises WrongUse."""
    try:
        return Durability(value)
    except ValueError:
        raise WrongUse(f"durability={value!r}: must be 'sync', 'async' or 'exit'") from None


def of_options(options: str) -> Durability:
    """Return the durability that a run's options name."""
    if options == "{}":
        return Durability.SYNC
    return durability(msgspec.json.decode(options).get(OPTION, Durability.SYNC))


def shown_of_options(options: str) -> str:
    """Return what a run's options name, for people: it may be anything that somebody has put there."""
    try:
        return of_options(options).value
    except (WrongUse, msgspec.MsgspecError, AttributeError):
        return options


def with_durability(options: str, chosen: Durability) -> str:
    """Return a run's options with this durability."""
    facts = {name: value for name, value in msgspec.json.decode(options).items() if name != OPTION}
    if chosen is not Durability.SYNC:
        facts[OPTION] = chosen.value
    return msgspec.json.encode(facts).decode()
