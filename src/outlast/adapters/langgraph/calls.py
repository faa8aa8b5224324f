"""Calls of models and tools as steps: what is kept of them, and which are told and which made when code runs again.

LangGraph runs a node again as a whole: after an interrupt in it, after a drain, and where a retry policy says so. What
had ended in one of these ways is not told again for ever. It was told once, and code that asks again makes a new call:

- an interrupt, and a drain, are told where they happen, and to no later execution of the node;
- an error is told once in each execution of the run's body, so that retries see the same errors after a crash.

Those are kept as values: a step that has ended so has not failed.
"""

from __future__ import annotations

import contextvars
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, TypeVar, cast

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.errors import GraphDrained, GraphInterrupt, ParentCommand

from outlast.adapters.journaled import in_body, journaled
from outlast.adapters.langgraph.tasks import TaskBranch
from outlast.core.definitions import SyncStep
from outlast.core.effects import InBody
from outlast.core.errors import WrongUse
from outlast.core.identity import Branch, here
from outlast.core.settings import Settings
from outlast.runtime.run_usage import spent_nothing

T = TypeVar("T")

ENDED = "langgraph"
"""The key in what is kept that says how a call has ended. What has none was given by a `confirm`, or by a person."""
RETURNED, INTERRUPTED, DRAINED, COMMANDED = "returned", "interrupted", "drained", "commanded"

_serde = JsonPlusSerializer()


class Kept(Generic[T]):
    """One call that the code of a graph makes: its steps are tried in turn until one of them tells how it ended.

    - `key`: what tells it from others in its scope; without one it is the next of its name there.
    - `given`: makes a result of what a `confirm` or a person has said that the call gave.
    """

    def __init__(
        self,
        name: str,
        settings: Settings,
        *,
        key: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        given: Callable[[Any], T],
    ) -> None:
        self._name = name
        self._settings = settings
        self._key = key
        self._arguments = dict(arguments or {})
        self._given = given
        self._step = ""
        self._is_live = False

    async def call(self, make: Callable[[], Awaitable[T]]) -> T:
        """Make the call, or tell how it ended. Elsewhere than in the body of a run it is made plainly."""
        if not in_body():
            return await make()
        around = contextvars.copy_context()

        async def attempt() -> Any:
            self._begin(around)
            try:
                return _kept(RETURNED, await make())
            except (GraphInterrupt, GraphDrained, ParentCommand) as way:
                return _passed(way)

        while True:
            key = self._next()
            try:
                kept = await journaled(
                    self._name,
                    attempt,
                    encode=_same,
                    decode=_same,
                    settings=self._settings,
                    key=key,
                    arguments=self._arguments,
                )
            except Exception:
                if not self._is_passed_by():
                    raise
            else:
                if not self._was_passed(kept):
                    return self._told(kept)

    def call_in_thread(self, make: Callable[[], T]) -> T:
        """Do so, blocking, for code of a run in a thread. Raises WrongUse in that of an async body."""
        if not in_body():
            return make()
        ops = cast("InBody", here.get()).ops
        if not ops.blocking:
            raise WrongUse(
                f"{self._name} was called by invoke(...), or batch or stream, in async workflow {ops.workflow} (run "
                f"{ops.run_id}), where it would block the worker; write: await ....ainvoke(...), or abatch or astream"
            )
        around = contextvars.copy_context()

        def attempt(**arguments: Any) -> Any:
            self._begin(around)
            try:
                return _kept(RETURNED, make())
            except (GraphInterrupt, GraphDrained, ParentCommand) as way:
                return _passed(way)

        while True:
            key = self._next()
            settings = self._settings if key is None else self._settings.with_(key=key)
            try:
                kept: Any = SyncStep(attempt, self._name, settings)(**self._arguments)
            except Exception:
                if not self._is_passed_by():
                    raise
            else:
                if not self._was_passed(kept):
                    return self._told(kept)

    def _begin(self, around: contextvars.Context) -> None:
        """Give an attempt the context in which the graph has made the call; an attempt begins in one of its own."""
        self._is_live = True
        for var, value in around.items():
            if var is not here:
                var.set(value)

    def _next(self) -> str | None:
        """Return the key of the call's next step."""
        branch = _branch()
        self._is_live, key = False, self._key
        if isinstance(branch, TaskBranch):
            n = branch.number(f"{self._name}[{key or ''}]")
            key = str(n) if key is None else key if n == 1 else f"{key}~{n}"
        self._step = f"{branch.path}/{self._name}[{key}]"
        return key

    def _is_passed_by(self) -> bool:
        """Tell whether the code was told before, in this execution of the body, that this step has failed."""
        branch = _branch()
        if not isinstance(branch, TaskBranch):
            return False
        was_told = self._step in branch.raised
        branch.raised.add(self._step)
        return was_told

    def _was_passed(self, kept: Any) -> bool:
        """Tell whether this is how an earlier execution of the node had ended."""
        return not self._is_live and isinstance(kept, dict) and kept.get(ENDED) in (INTERRUPTED, DRAINED)

    def _told(self, kept: Any) -> T:
        if not isinstance(kept, dict) or ENDED not in kept:
            return self._given(kept)
        value = _serde.loads_typed((kept["type"], kept["data"]))
        match kept[ENDED]:
            case "interrupted":
                raise GraphInterrupt(value)
            case "drained":
                raise GraphDrained(value)
            case "commanded":
                raise ParentCommand(value)
        result: T = value
        return result


def _branch() -> Branch:
    return cast("InBody", here.get()).branch.current()


def _same(value: Any) -> Any:
    return value


def _kept(ended: str, value: Any) -> dict[str, Any]:
    kind, data = _serde.dumps_typed(value)
    return {ENDED: ended, "type": kind, "data": data}


def _passed(way: GraphInterrupt | GraphDrained | ParentCommand) -> dict[str, Any]:
    spent_nothing()
    match way:
        case GraphInterrupt():
            return _kept(INTERRUPTED, list(way.args[0]))
        case GraphDrained():
            return _kept(DRAINED, way.reason)
    return _kept(COMMANDED, way.args[0])
