"""Sessions: what a run read is recorded, and what it adds is added once.

A session is a store of its own, and keeps what a run has added whatever becomes of the run. So a replay must not read
it again (it would see its own future), nor add to it again. Reads are steps. An addition is a step that may be made a
second time, when a crash came between the addition and its record; so it looks first how much of it is there. It can
tell, since what stood at the end before is known from what this run has read and added itself.

That also shows when others have written meanwhile. Two runs that use one session at once would answer each other's
questions, so the second one is refused; `SessionChanged` says what to do.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from typing import Any

from agents.memory import OpenAIConversationsSession
from agents.run_internal.items import fingerprint_input_item

from outlast.adapters.journaled import in_body, journaled
from outlast.adapters.openai_agents.outcomes import same
from outlast.adapters.openai_agents.settings import NOTED
from outlast.core.errors import OutlastError, WrongUse
from outlast.core.settings import Settings

TAIL = 16
"""So many items at the end tell what was there before an addition."""

ALL = 1_000_000_000
"""More items than a session has."""

ADDING = Settings(check_args=False)


class SessionChanged(OutlastError):
    """Another run has written to the session that this run uses."""


class DurableSession:
    """A session whose reads and additions are recorded in the run whose body makes them.

    A durable runner makes one of each session that it is given; code of a workflow that uses a session itself makes
    its own: `DurableSession(SQLiteSession("ada", "chats.db"))`. Elsewhere, and in all else, it is the session. Raises
    WrongUse for one that cannot be replayed.
    """

    def __init__(self, session: Any) -> None:
        _check(session)
        self._session = session
        self._before: list[Any] | None = None  # the last items of the session, as this run knows them
        self._count: int | None = None  # how many it has in all, if that is known
        for name in ("get_items", "add_items", "pop_item", "clear_session"):
            method = getattr(session, name)  # bears its signature, by which the SDK knows whether to pass its context
            setattr(self, name, functools.wraps(method)(functools.partial(getattr(self, f"_{name}"))))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    @property  # type: ignore[misc]  # the SDK asks by isinstance what kind of session it is
    def __class__(self) -> Any:
        return type(self._session)

    async def _get_items(self, limit: int | None = None, **more: Any) -> list[Any]:
        async def read() -> list[Any]:
            return await self._read(limit, more)

        if not in_body():
            return await read()
        items: list[Any] = await journaled("session_get_items", read, encode=same, decode=list, settings=NOTED)
        if self._before is None:
            self._know(
                items,
                limit
                if limit is not None
                else getattr(getattr(self._session, "session_settings", None), "limit", None),
            )
        return items

    async def _add_items(self, items: list[Any], **more: Any) -> None:
        if not in_body():
            await _answer(self._session.add_items(items, **more))
            return
        before = await self._tail(more)
        if self._count is None and _repeats(self._prints(before), self._prints(items)):
            await self._tail(more, whole=True)

        async def add() -> None:
            missing = await self._missing(before, items, more)
            if missing:
                await _answer(self._session.add_items(missing, **more))

        await journaled("session_add_items", add, encode=same, decode=same, settings=ADDING)
        self._before = (before + list(items))[-TAIL:]
        self._count = None if self._count is None else self._count + len(items)

    async def _pop_item(self, **more: Any) -> Any:
        if not in_body():
            return await _answer(self._session.pop_item(**more))
        before = await self._tail(more, whole=True)
        count = self._count or 0

        async def pop() -> Any:
            left = len(await self._read(count + 1, more))
            if left not in (count, count - 1):
                raise self._changed()
            return await _answer(self._session.pop_item(**more)) if left == count else before[-1]

        popped = await journaled("session_pop_item", pop, encode=same, decode=same, settings=ADDING)
        self._before, self._count = (None, None) if len(before) == TAIL else (before[:-1], max(0, count - 1))
        return popped

    async def _clear_session(self, **more: Any) -> None:
        async def clear() -> None:
            await _answer(self._session.clear_session(**more))

        if not in_body():
            await clear()
            return
        await journaled("session_clear_session", clear, encode=same, decode=same, settings=ADDING)
        self._before, self._count = [], 0

    def _know(self, items: list[Any], limit: int | None) -> None:
        self._before = items[-TAIL:]
        self._count = len(items) if limit is None or len(items) < limit else None

    async def _tail(self, more: dict[str, Any], *, whole: bool = False) -> list[Any]:
        """Return the last items of the session as this run knows them, or looks now; with `whole`, count all."""
        if self._before is None or (whole and self._count is None):
            limit = ALL if whole else TAIL

            async def look() -> list[Any]:
                items = await self._read(limit, more)
                return [items[-TAIL:], len(items)]

            items, found = await journaled("session_look", look, encode=same, decode=list, settings=NOTED)
            self._before = items
            self._count = found if found < limit else None
        assert self._before is not None
        return self._before

    async def _missing(self, before: list[Any], items: Sequence[Any], more: dict[str, Any]) -> list[Any]:
        """Return what of an addition is not in the session yet."""
        was, added = self._prints(before), self._prints(items)
        limit = (TAIL if self._count is None else self._count + 1) + len(items)
        now = self._prints(await self._read(limit, more))
        fits = [n for n in range(len(items) + 1) if _ends_with(now, was + added[:n])]
        if self._count is not None:
            fits = [n for n in fits if len(now) == self._count + n]
        if not fits:
            raise self._changed()
        return list(items[fits[-1] :])

    async def _read(self, limit: int | None, more: dict[str, Any]) -> list[Any]:
        limited = {} if limit is None else {"limit": limit}
        return list(await _answer(self._session.get_items(**limited, **more)))

    def _prints(self, items: Sequence[Any]) -> list[str]:
        no_ids = isinstance(self._session, OpenAIConversationsSession)
        return [fingerprint_input_item(item, ignore_ids_for_matching=no_ids) or repr(item) for item in items]

    def _changed(self) -> SessionChanged:
        return SessionChanged(
            f"the session {self._session.session_id!r} does not end with what this run has read and added: another run "
            "has written to it. Let one run at a time use a session: keep it to one long-lived run, or put the runs on "
            "a queue with per_key=1 and the session's id as the key"
        )


async def _answer(given: Any) -> Any:
    """Return what a session's method gives: the SDK takes plain ones, too."""
    return await given if inspect.isawaitable(given) else given


def _ends_with(items: list[str], end: list[str]) -> bool:
    return not end or items[-len(end) :] == end


def _repeats(was: list[str], added: list[str]) -> bool:
    """Tell whether the end of a session looks the same before and after an addition: then only its length tells."""
    return any(_ends_with(was + added[:n], was) for n in range(1, len(added) + 1))


def _check(session: Any) -> None:
    """Refuse a session that cannot be kept."""
    if callable(getattr(session, "run_compaction", None)):
        raise WrongUse(
            f"a {type(session).__name__} replaces its history by a model's summary, which would be asked for again "
            "after a crash, of another history; give the run the session that it wraps"
        )
    if isinstance(session, OpenAIConversationsSession) and session._session_id is None:
        raise WrongUse(
            "this OpenAIConversationsSession makes a new conversation when it is first used, and would make another "
            "one after a crash; give it the id of one: OpenAIConversationsSession(conversation_id=...)"
        )
