"""The framework's cache of what tools gave, which is to find the same in each execution.

Of two calls that are made at once, neither finds what the other gives. Told from a journal the first may be over before
the second looks. So a call that is recorded is told, whatever the cache has; and only one that is not may be answered
from there. The framework looks before it makes the call: what it would have found is kept for the call.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from crewai.agents.cache.cache_handler import CacheHandler

from outlast.adapters.journaled import in_body

HANDED_OVER = ("ask_question_to_coworker", "delegate_work_to_coworker")
"""Tools that are no steps, but have agents do something."""

_found: ContextVar[tuple[str, Any] | None] = ContextVar("outlast_crewai_found", default=None)


class Cache(CacheHandler):
    """A cache that leaves it to the call whether what it has is used."""

    def read(self, tool: str, input: str) -> Any | None:
        """Return what is there; in a body None, and it is kept for the call."""
        value = super().read(tool, input)
        if tool in HANDED_OVER or not in_body():
            return value
        _found.set((tool, value))
        return None


def taken(tool: str) -> Any | None:
    """Return what the cache had for the call of this tool that is made now."""
    found = _found.get()
    _found.set(None)
    return found[1] if found is not None and found[0] == tool else None
