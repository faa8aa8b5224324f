"""Calls of tools: each is a step, keyed by the id that the model gave the call.

All tools that run here come through one function of the SDK: functions, those of MCP servers, agents as tools. The step
is *inside* of what makes a text for the model of a tool's error, so that it sees the error itself: a `once` tool that
raised is in doubt, one with retries is tried again. An agent as a tool is no step. It is a scope, in which its own
calls are recorded.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from agents import FunctionTool
from agents.tool import _FailureHandlingFunctionToolInvoker

from outlast.adapters.journaled import journaled
from outlast.adapters.openai_agents.carrying import carrying
from outlast.adapters.openai_agents.contexts import Changes, changes, seen
from outlast.adapters.openai_agents.mcp_tools import effect_by_hints, with_key
from outlast.adapters.openai_agents.outcomes import same, storable
from outlast.adapters.openai_agents.settings import Entered, durable, scoped
from outlast.core.errors import WrongUse
from outlast.core.marking import effect_of
from outlast.core.records import Effect
from outlast.core.settings import Settings

Invoke = Callable[[Any, str], Awaitable[Any]]

_NOT_IN_NAMES = re.compile(r"[/#.\[\]!%:]")


@dataclass(frozen=True)
class Outcome:
    """What a call gave, where that is more than the tool's output.

    `custom_data` is what the program's own extractor made of the answer of an MCP server, for the item of the result.
    `changes` is what the tool has changed in the context object.
    """

    output: Any
    custom_data: Any
    changes: Changes


async def invoke(
    original: Callable[..., Awaitable[Any]], *, function_tool: FunctionTool, context: Any, arguments: str
) -> Any:
    """Replaces `_invoke_function_tool_with_metadata`."""
    run = durable()
    if run is None:
        return await original(function_tool=function_tool, context=context, arguments=arguments)
    if function_tool._is_agent_tool:
        with scoped(f"{function_tool.name}:{context.tool_call_id}"):
            return await original(function_tool=function_tool, context=context, arguments=arguments)
    recorded = recorded_tool(function_tool, run, context.tool_call_id)
    return await original(function_tool=recorded, context=context, arguments=arguments)


def recorded_tool(tool: FunctionTool, run: Entered, call_id: str) -> FunctionTool:
    """Return a twin of the tool for one call, whose function runs in a step."""
    settings = settings_of(tool, run)
    twin = object.__new__(type(tool))  # not by copy.copy, which makes the schema of its parameters anew
    twin.__dict__.update(tool.__dict__)
    invoker = tool.on_invoke_tool
    if isinstance(invoker, _FailureHandlingFunctionToolInvoker):
        step = _as_step(invoker._invoke_tool_impl, tool.name, settings, call_id)
        twin.on_invoke_tool = _FailureHandlingFunctionToolInvoker(step, invoker._on_handled_error, function_tool=twin)
    else:
        twin.on_invoke_tool = _as_step(invoker, tool.name, settings, call_id)
    return twin


def settings_of(tool: FunctionTool, run: Entered) -> Settings:
    """Return how a tool is run. Raises WrongUse for what cannot be kept."""
    settings = effect_of(tool, tool.on_invoke_tool, name=tool.name, given=run.told.effects)
    if settings == Settings() and tool.name not in run.told.effects:
        settings = effect_by_hints(tool)
    if settings.effect is Effect.ONCE and tool.timeout_seconds is not None:
        raise WrongUse(
            f"the tool {tool.name!r} has effect 'once' and a timeout of the SDK, which ends the call without knowing "
            "whether the effect took place; say @outlast.effect('once', timeout=...) in its place"
        )
    return settings


def _as_step(call: Invoke, name: str, settings: Settings, call_id: str) -> Invoke:
    name = _NOT_IN_NAMES.sub("_", name)

    @functools.wraps(call)
    async def step(context: Any, arguments: str) -> Any:
        made = False

        async def make() -> Any:
            nonlocal made
            made, before = True, seen(context.context)
            output = storable(await with_key(call)(context, arguments))
            custom_data, changed = getattr(context, "_custom_data", None), changes(before, context.context)
            if custom_data is None and not changed:
                return output
            return Outcome(output, storable(custom_data), changed)

        outcome = await journaled(
            name, carrying(make), encode=same, decode=same, settings=settings, key=call_id, arguments=_named(arguments)
        )
        if not isinstance(outcome, Outcome):
            return outcome
        context._custom_data = outcome.custom_data
        if not made:
            outcome.changes.make(context.context)
        return outcome.output

    return step


def _named(arguments: str) -> dict[str, Any]:
    """Return the arguments as people and a `confirm` are told them."""
    try:
        named = json.loads(arguments or "{}")
    except ValueError:
        return {}  # the tool itself says what is wrong with them
    return named if isinstance(named, dict) else {}
