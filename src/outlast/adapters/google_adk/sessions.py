"""Sessions that outlive a run, behind a run that may be executed several times.

A session is read once, in a step. The events of an invocation are kept in memory, and stored when it ends: first they
are recorded as they are, then a step adds those to the session that it has not got. So an invocation that is executed
again after a crash finds the session as it was, and its events are stored once.
"""

from __future__ import annotations

import json
from typing import Any, TypedDict
from weakref import WeakKeyDictionary

from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event
from google.adk.sessions import BaseSessionService, InMemorySessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse
from google.adk.sessions.state import State

from outlast.adapters.google_adk.places import operations
from outlast.adapters.journaled import journaled
from outlast.core.effects import Operations
from outlast.core.settings import Settings
from outlast.runtime.operations import idempotency_key

READ = Settings().with_(effect="pure", check_args=False)
WRITE = Settings().with_(check_args=False)

Key = tuple[str, str, str]


class _Names(TypedDict):
    app_name: str
    user_id: str
    session_id: str


class _Memory:
    """The sessions as one execution of a run sees them. `new`: events that are yet to be stored."""

    def __init__(self) -> None:
        self.service = InMemorySessionService()
        self.new: dict[Key, list[Event]] = {}

    def put(self, session: Session) -> None:
        """Keep a session that was read."""
        app, user = session.app_name, session.user_id
        own: dict[str, Any] = {}
        for name, value in session.state.items():
            if name.startswith(State.APP_PREFIX):
                self.service.app_state.setdefault(app, {})[name.removeprefix(State.APP_PREFIX)] = value
            elif name.startswith(State.USER_PREFIX):
                of_user = self.service.user_state.setdefault(app, {}).setdefault(user, {})
                of_user[name.removeprefix(State.USER_PREFIX)] = value
            else:
                own[name] = value
        kept = session.model_copy(update={"state": own})
        self.service.sessions.setdefault(app, {}).setdefault(user, {})[session.id] = kept
        self.new.setdefault((app, user, session.id), [])

    async def seen(self, session: Session) -> Session:
        """Return a session that is kept, as the framework is to have it."""
        found = await self.service.get_session(
            app_name=session.app_name, user_id=session.user_id, session_id=session.id
        )
        assert found is not None
        return found


class Sessions(BaseSessionService):
    """A session service for workflows, around one that stores sessions: `Sessions(DatabaseSessionService(url))`.

    In a workflow a session is read once, and the events of an invocation are added to it when that ends, once, whatever
    becomes of processes meanwhile. Elsewhere it is the service that it was given. Use it with `Plugin()`, which has the
    events stored.
    """

    def __init__(self, service: BaseSessionService) -> None:
        self._service = service
        self._memories: WeakKeyDictionary[Operations, _Memory] = WeakKeyDictionary()

    def _memory(self) -> _Memory | None:
        execution = operations()
        return None if execution is None else self._memories.setdefault(execution, _Memory())

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        """Create a session; in a workflow in a step."""
        memory = self._memory()
        if memory is None:
            return await self._service.create_session(
                app_name=app_name, user_id=user_id, state=state, session_id=session_id
            )

        async def make() -> Session | None:
            key = session_id or idempotency_key()
            try:
                return await self._service.create_session(
                    app_name=app_name, user_id=user_id, state=state, session_id=key
                )
            except AlreadyExistsError:
                made = await self._service.get_session(app_name=app_name, user_id=user_id, session_id=key)
                if made is None or made.events or any(made.state.get(k) != v for k, v in (state or {}).items()):
                    raise
                return made  # by an attempt that had a crash before this was recorded

        arguments = {"app_name": app_name, "user_id": user_id, "session_id": session_id}
        session = await journaled(
            "create session", make, encode=_kept, decode=_told, settings=WRITE, arguments=arguments
        )
        assert session is not None
        memory.put(session)
        return await memory.seen(session)

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """Return a session; in a workflow as it was when this run read it first, and what this run added."""
        memory = self._memory()
        if memory is None:
            return await self._service.get_session(
                app_name=app_name, user_id=user_id, session_id=session_id, config=config
            )
        if (app_name, user_id, session_id) not in memory.new:
            names = _Names(app_name=app_name, user_id=user_id, session_id=session_id)
            session = await journaled(
                "read session",
                lambda: self._service.get_session(**names),
                encode=_kept,
                decode=_told,
                settings=READ,
                arguments=names,
            )
            if session is None:
                return None
            memory.put(session)
        return await memory.service.get_session(
            app_name=app_name, user_id=user_id, session_id=session_id, config=config
        )

    async def append_event(self, session: Session, event: Event) -> Event:
        """Add an event to a session; in a workflow it is stored when the invocation ends."""
        memory = self._memory()
        if memory is None:
            return await self._service.append_event(session, event)
        new = memory.new.get((session.app_name, session.user_id, session.id))
        if new is None or event.partial:
            return await memory.service.append_event(session, event)
        appended = await memory.service.append_event(session, event)
        new.append(appended)
        return appended

    async def store(self, session: Session) -> None:
        """Store what was added to a session since it was stored last, in a workflow. `Plugin()` does so."""
        memory = self._memory()
        key = (session.app_name, session.user_id, session.id)
        if memory is None or not memory.new.get(key):
            return
        new, memory.new[key] = memory.new[key], []
        names = _Names(app_name=key[0], user_id=key[1], session_id=key[2])

        async def same() -> list[Event]:
            return new

        # The ids of events are drawn at random, and those that are stored have to be the same in each attempt.
        events = await journaled(
            "events", same, encode=_kept_events, decode=_told_events, settings=READ, arguments=names
        )

        async def add() -> None:
            while not await self._add(names, events):
                pass

        await journaled("store session", add, encode=_same, decode=_same, settings=WRITE, arguments=names)

    async def _add(self, names: _Names, events: list[Event]) -> bool:
        """Store those of the events that are not; tell whether nobody else wrote to the session meanwhile."""
        stored = await self._service.get_session(**names)
        if stored is None:
            stored = await self._service.create_session(**names)
        there = {event.id for event in stored.events}
        try:
            for event in events:
                if event.id not in there:
                    await self._service.append_event(stored, event)
        except StaleSessionError:
            return False
        return True

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """Return the sessions that are stored; in a workflow as they were when it asked."""
        return await journaled(
            "list sessions",
            lambda: self._service.list_sessions(app_name=app_name, user_id=user_id),
            encode=lambda found: json.loads(found.model_dump_json()),
            decode=lambda kept: ListSessionsResponse.model_validate_json(json.dumps(kept)),
            settings=READ,
        )

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the state of a user that is stored; in a workflow as it was when it asked."""
        return await journaled(
            "user state",
            lambda: self._service.get_user_state(app_name=app_name, user_id=user_id),
            encode=_same,
            decode=_same,
            settings=READ,
        )

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session; in a workflow in a step."""
        names = _Names(app_name=app_name, user_id=user_id, session_id=session_id)
        memory = self._memory()
        if memory is not None:
            await memory.service.delete_session(**names)
            memory.new.pop((app_name, user_id, session_id), None)
        await journaled(
            "delete session",
            lambda: self._service.delete_session(**names),
            encode=_same,
            decode=_same,
            settings=WRITE,
            arguments=names,
        )

    async def flush(self) -> None:
        """Have the service store what it has kept back."""
        await self._service.flush()


def _same(value: Any) -> Any:
    return value


def _kept(session: Session | None) -> Any:
    return None if session is None else json.loads(session.model_dump_json(by_alias=True, exclude_none=True))


def _told(kept: Any) -> Session | None:
    return None if kept is None else Session.model_validate_json(json.dumps(kept))


def _kept_events(events: list[Event]) -> list[Any]:
    return [json.loads(event.model_dump_json(by_alias=True, exclude_none=True)) for event in events]


def _told_events(kept: list[Any]) -> list[Event]:
    return [Event.model_validate_json(json.dumps(event)) for event in kept]
