"""How the calls of a tool are run: what is said of its effect, in whichever of the ways there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic_ai import FunctionToolset, ToolsetTool

from outlast.core.errors import WrongUse
from outlast.core.marking import mark_of
from outlast.core.records import Effect
from outlast.core.settings import Settings

METADATA_KEY = "outlast"
"""In a tool's metadata: an effect, or False for a tool whose function runs in the workflow's body."""

Effects = Mapping[str, Any]
"""By the names of tools: an effect, a dict of what `outlast.effect` takes (and `effect`), or False."""


@dataclass(frozen=True)
class ToolCalls:
    """How the calls of one tool are run. `marked`: whether anybody has said so."""

    settings: Settings
    marked: bool


UNMARKED = ToolCalls(Settings(), marked=False)


def calls_of(tool: Any, name: str, given: Effects) -> ToolCalls | Literal[False]:
    """Return how the calls of a tool are run; False where its function is to run in the workflow's body.

    The mapping that `Durable` was given comes first, then the tool's metadata, the mark of its function, the hints of
    its MCP server. Raises WrongUse for what is no effect, and for a tool that cannot have the one that it has.
    """
    if name in given:
        calls = _said(given[name], f"effects={{{name!r}: ...}}")
    elif not isinstance(tool, ToolsetTool):
        return UNMARKED
    else:
        metadata = tool.tool_def.metadata or {}
        if metadata.get(METADATA_KEY) is not None:
            calls = _said(metadata[METADATA_KEY], f"the metadata of the tool {name!r}")
        elif (mark := mark_of(_function_of(tool))) is not None:
            calls = ToolCalls(mark, marked=True)
        else:
            calls = _hinted(metadata.get("annotations"))
    if calls is not False and calls.settings.effect is Effect.ONCE:
        _check_timeout(tool, name)
    return calls


def _said(value: Any, where: str) -> ToolCalls | Literal[False]:
    if value is False:
        return False
    changes = value if isinstance(value, dict) else {"effect": value}
    try:
        return ToolCalls(Settings().with_(**changes), marked=True)
    except WrongUse as refused:
        raise WrongUse(f"{where}: {refused}; False has the function run in the workflow's body") from None


def _function_of(tool: ToolsetTool[Any]) -> Any:
    """Return the user's function behind a tool; None where it is none of this process."""
    toolset = tool.toolset
    if not isinstance(toolset, FunctionToolset):
        return None
    name = getattr(tool, "original_name", None) or tool.tool_def.name
    return toolset.tools[name].function if name in toolset.tools else None


def _hinted(hints: Any) -> ToolCalls:
    """Return what a server says of its tool. It has to say plainly that a call cannot be repeated, to be believed."""
    if not isinstance(hints, dict):
        return UNMARKED
    if hints.get("readOnlyHint") is True:
        return ToolCalls(Settings().with_(effect="pure"), marked=True)
    if hints.get("idempotentHint") is False:
        return ToolCalls(Settings().with_(effect="once"), marked=True)
    return UNMARKED


def _check_timeout(tool: Any, name: str) -> None:
    """Refuse the framework's own timeout for what must not happen twice: it asks the model to try again."""
    toolset_s = getattr(getattr(tool, "toolset", None), "timeout", None)
    if getattr(getattr(tool, "tool_def", None), "timeout", None) is None and toolset_s is None:
        return
    raise WrongUse(
        f"the tool {name!r} has effect 'once' and a timeout of Pydantic AI, which tells the model that a call which "
        "took too long did not happen; take that away and write @outlast.effect('once', timeout=...): then such a call "
        "is in doubt, and nobody repeats it"
    )
