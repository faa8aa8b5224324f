"""Calls of tools as steps. What the framework does around them, its counters, caches and hooks, goes on each time."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

from crewai.tools.agent_tools.base_agent_tools import BaseAgentTool
from crewai.tools.agent_tools.deferred_tool_result_reader import DeferredToolResultReader
from crewai.tools.base_tool import BaseTool, Tool
from crewai.utilities.string_utils import sanitize_tool_name

from outlast.adapters.crewai import caching
from outlast.adapters.crewai.calls import recorded, recorded_in_thread
from outlast.adapters.crewai.classes import copied, said_of
from outlast.adapters.crewai.people import ask, ask_in_thread
from outlast.adapters.crewai.places import is_recorded, key_here, told_apart
from outlast.adapters.journaled import in_body
from outlast.adapters.questions import call_in_words
from outlast.core.marking import effect_of
from outlast.core.settings import Settings

if TYPE_CHECKING:
    from outlast.runtime.approvals import Approval

    Likeness = BaseTool
    FunctionLikeness = Tool[..., Any]
else:
    Likeness = FunctionLikeness = object  # their methods are mixed into a tool's own class

Effects = Mapping[str, Any]
"""By the names of tools: an effect, or a dict of what `outlast.effect` takes, and `effect`."""


@dataclass(frozen=True)
class ToolCalls:
    """How the calls of one tool are made. `asks`: people have to approve each; `to`: who."""

    name: str
    settings: Settings
    asks: bool
    to: str

    def run(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a call, or tell what is recorded of it. Returns something to await where the tool does."""
        if not in_body():
            return fn(*args, **kwargs)
        named = _named(fn, args, kwargs)
        key = told_apart(key_here(), named)
        found = caching.taken(self.name)
        if found is not None and not is_recorded(self.name, key):
            return _awaited(found) if inspect.iscoroutinefunction(fn) else found
        if inspect.iscoroutinefunction(fn):
            return self._run_async(fn, args, kwargs, named, key)
        if self.asks and (refusal := self._refusal(ask_in_thread(*self._question(named, key), to=self.to))):
            return refusal

        def make() -> Any:
            result = fn(*args, **kwargs)
            return asyncio.run(result) if inspect.iscoroutine(result) else result

        return recorded_in_thread(self.name, make, **self._how(named, key))

    async def _run_async(
        self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], named: dict[str, Any], key: str
    ) -> Any:
        if self.asks and (refusal := self._refusal(await ask(*self._question(named, key), to=self.to))):
            return refusal
        return await recorded(self.name, lambda: fn(*args, **kwargs), **self._how(named, key))

    def _how(self, named: dict[str, Any], key: str) -> dict[str, Any]:
        return {"encode": _same, "decode": _same, "settings": self.settings, "key": key, "arguments": named}

    def _question(self, named: dict[str, Any], key: str) -> tuple[str, dict[str, Any], str]:
        return f"{call_in_words(self.name, named)}?", {"tool": self.name, "args": named}, f"{key} {self.name}"

    def _refusal(self, said: Approval[Any]) -> str:
        """Return what the model is told of a call that people did not approve."""
        if said.approved:
            return ""
        return f"The call of {self.name} was not approved{f': {said.note}' if said.note else '.'}"


class ToolMaker:
    """Makes of tools such whose calls are steps: one of each, in which its uses are counted."""

    def __init__(self, effects: Effects, approve: Collection[str], to: str) -> None:
        self._effects = effects
        self._approve = frozenset(approve)
        self._to = to
        self._made: dict[int, tuple[BaseTool, BaseTool]] = {}  # the user's own are held, so that ids stay theirs

    def tool(self, tool: BaseTool) -> BaseTool:
        """Return a tool whose calls are steps; one that has agents do something is a scope, and stays as it is."""
        if said_of(tool) is not None or isinstance(tool, (BaseAgentTool, DeferredToolResultReader)):
            return tool
        if id(tool) not in self._made:
            self._made[id(tool)] = (tool, self._durable(tool))
        return self._made[id(tool)][1]

    def _durable(self, tool: BaseTool) -> BaseTool:
        said = ToolCalls(
            sanitize_tool_name(tool.name),
            settings_of(tool, self._effects),
            asks=not self._approve.isdisjoint((tool.name, sanitize_tool_name(tool.name))),
            to=self._to,
        )
        fields: dict[str, Any] = {"current_usage_count": 0}
        if isinstance(tool, Tool):
            return copied(tool, StepFunction, said, fields=fields | {"func": _in_steps(tool.func, said)})
        return copied(tool, StepTool, said, fields=fields)


class StepFunction(FunctionLikeness):
    """The class of a copy of a tool that is a function: that function's calls are steps."""


class StepTool(Likeness):
    """The behaviour of a tool whose calls are steps."""

    _outlast: ToolCalls

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        return self._outlast.run(super()._run, args, kwargs)  # type: ignore[safe-super]

    async def _arun(self, *args: Any, **kwargs: Any) -> Any:
        return await self._outlast.run(super()._arun, args, kwargs)


def settings_of(tool: BaseTool, effects: Effects) -> Settings:
    """Return how the calls of a tool are run: as given for its name, or as marked."""
    name = tool.name if tool.name in effects else sanitize_tool_name(tool.name)
    given = effects.get(name)
    if isinstance(given, dict):
        return Settings().with_(**given)
    return effect_of(tool, getattr(tool, "func", None), type(tool)._run, type(tool)._arun, name=name, given=effects)


def _in_steps(fn: Callable[..., Any], said: ToolCalls) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(fn):

        @wraps(fn)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            return await said.run(fn, args, kwargs)

        return call_async

    @wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        return said.run(fn, args, kwargs)

    return call


def _named(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return a call's arguments by their names."""
    if not args:
        return kwargs
    try:
        return dict(inspect.signature(fn).bind(*args, **kwargs).arguments)
    except TypeError:  # the call itself will say so
        return {"args": list(args), **kwargs}


async def _awaited(value: Any) -> Any:
    return value


def _same(value: Any) -> Any:
    return value
