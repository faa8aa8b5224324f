"""Calls of tools as steps: the result, and what the call did to the session (`tool_context.actions`), are recorded.

The framework's own work on a call goes on around the step, each time: its gate for confirmations, callbacks, telemetry.
A call that asks for a confirmation has come to a result of its own, and is made again, as another step, when people
have answered.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.events.event_actions import EventActions
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from google.adk.workflow import BaseNode
from google.adk.workflow._errors import NodeInterruptedError

from outlast.adapters.google_adk.likenesses import likeness
from outlast.adapters.google_adk.places import place_of
from outlast.adapters.journaled import in_body, journaled
from outlast.core.errors import WrongUse
from outlast.core.marking import effect_of
from outlast.core.settings import Settings

Effects = Mapping[str, Any]
"""By the names of tools: an effect, or a dict of what `outlast.effect` takes, and `effect`."""

Tools = BaseTool | BaseToolset | BaseNode | Callable[..., Any]
"""What stands in an agent's list of tools."""


def durable_tool(tool: Tools, effects: Effects) -> Tools:
    """Return a tool, or a toolset, whose calls are steps. Raises WrongUse for one whose calls cannot be."""
    if isinstance(tool, (StepTool, StepToolset, BaseNode)):
        return tool
    if isinstance(tool, BaseToolset):
        return likeness(tool, StepToolset, effects)
    if not isinstance(tool, BaseTool):
        tool = FunctionTool(func=tool)
    if isinstance(tool, AgentTool):
        if not tool.include_plugins:
            raise WrongUse(
                f"the agent {tool.name} is called as a tool with include_plugins=False, so nothing that it does would "
                "be recorded; leave include_plugins out, or run that agent in a step of your own"
            )
        return tool
    if _is_scope(tool):
        return tool
    _check(tool)
    return likeness(tool, StepTool, settings_of(tool, effects))


def _is_scope(tool: BaseTool) -> bool:
    """Tell whether a tool runs nodes of the framework, in which each call of a model or tool is a step by itself."""
    return isinstance(getattr(tool, "node", None), BaseNode)


def _check(tool: BaseTool) -> None:
    function = getattr(tool, "func", None)
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise WrongUse(
            f"the tool {tool.name} is a generator, whose pieces the framework hands on while it runs, and which nobody "
            "could hand on again after a crash; return its result, and write what is to be seen meanwhile to "
            "outlast.stream(...)"
        )


def settings_of(tool: BaseTool, effects: Effects) -> Settings:
    """Return how the calls of a tool are run: as given for its name, as marked, or as its MCP server hints."""
    given = effects.get(tool.name)
    if isinstance(given, dict):
        return Settings().with_(**given)
    settings = effect_of(tool, getattr(tool, "func", None), name=tool.name, given=effects)
    hints = getattr(getattr(tool, "raw_mcp_tool", None), "annotations", None)
    if settings != Settings() or hints is None or given is not None:
        return settings
    # A server has to say plainly that a call cannot be repeated, or that it changes nothing, to be believed.
    for names, value, effect in ((("readOnlyHint", "read_only_hint"), True, "pure"), _NOT_IDEMPOTENT):
        if any(getattr(hints, name, None) is value for name in names):
            return Settings().with_(effect=effect)
    return settings


_NOT_IDEMPOTENT = (("idempotentHint", "idempotent_hint"), False, "once")


@dataclass(frozen=True)
class Outcome:
    """What a call came to. `latest`: what it wrote to the session's state that no other call has written over."""

    result: Any
    actions: EventActions
    latest: frozenset[str]


class StepTool(BaseTool):
    """The behaviour of a tool whose calls are steps."""

    __slots__ = ()
    outlast_said: Settings

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        """Make the call, or tell what is recorded of it."""
        call = super().run_async
        if not in_body():
            return await call(args=args, tool_context=tool_context)
        made = False

        async def make() -> Outcome:
            nonlocal made
            made = True
            try:
                result = await call(args=args, tool_context=tool_context)
            except NodeInterruptedError:
                raise WrongUse(
                    f"the tool {self.name} ran a node that waits for people, in the tool's own step, where nobody can "
                    "answer; make that node a sub-agent, or a tool by itself"
                ) from None
            return Outcome(result, tool_context.actions, _latest(tool_context))

        outcome = await journaled(
            self.name,
            make,
            encode=_kept,
            decode=_told,
            settings=self.outlast_said,
            key=call_key(tool_context),
            arguments=args,
        )
        if not made:
            _apply(outcome, tool_context)
        return outcome.result


class StepToolset(BaseToolset):
    """The behaviour of a toolset the calls of whose tools are steps."""

    __slots__ = ()
    outlast_said: Effects

    async def get_tools_with_prefix(  # type: ignore[misc]  # final for those who make toolsets
        self, readonly_context: ReadonlyContext | None = None
    ) -> list[BaseTool]:
        """Return the tools."""
        tools = await super().get_tools_with_prefix(readonly_context)
        return [durable_tool(tool, self.outlast_said) for tool in tools]  # type: ignore[misc]


def call_key(tool_context: ToolContext) -> str:
    """Return what tells a call of a tool from others."""
    return f"{place_of(tool_context._invocation_context)}:{tool_context.function_call_id}"


def _latest(tool_context: ToolContext) -> frozenset[str]:
    """Return the keys of what this call wrote to the state, and no parallel one after it.

    Calls that run side by side share the state of the session, so what they wrote has an order, which their outcomes
    need not have.
    """
    state = tool_context._invocation_context.session.state
    written = tool_context.actions.state_delta
    return frozenset(key for key, value in written.items() if state.get(key) is value)


_RESULT = "tool_result"


def _kept(outcome: Outcome) -> Any:
    """Return what is recorded: the result alone, as far as the call did nothing else.

    So it is what people and `confirm` give as the value of a call that happened: the tool's result.
    """
    actions = outcome.actions.model_dump_json(exclude={"state_delta"}, exclude_none=True, exclude_defaults=True)
    beside = {
        "state": dict(outcome.actions.state_delta),
        "latest": sorted(outcome.latest),
        "actions": json.loads(actions),
    }
    kept = {name: value for name, value in beside.items() if value}
    plain = not kept and not (isinstance(outcome.result, dict) and _RESULT in outcome.result)
    return outcome.result if plain else {_RESULT: outcome.result} | kept


def _told(kept: Any) -> Outcome:
    if not (isinstance(kept, dict) and _RESULT in kept):
        return Outcome(kept, EventActions(), frozenset())
    actions = EventActions.model_validate_json(json.dumps(kept.get("actions", {})))
    actions.state_delta = kept.get("state", {})
    return Outcome(kept[_RESULT], actions, frozenset(kept.get("latest", ())))


def _apply(outcome: Outcome, tool_context: ToolContext) -> None:
    """Do to the session what the call did that was made before."""
    actions = tool_context.actions
    for name in EventActions.model_fields:
        if name != "state_delta":
            setattr(actions, name, getattr(outcome.actions, name))
    for key, value in outcome.actions.state_delta.items():
        if key in outcome.latest:
            tool_context.state[key] = value
        else:
            actions.state_delta[key] = value
