"""Tools of MCP servers: their hints, and the key of a call for servers that look for one."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any

from agents import FunctionTool
from agents.mcp.util import MCPUtil

import outlast
from outlast.core.settings import Settings

KEY = "outlast/idempotency_key"
"""Where the key of a call stands in the `_meta` of its request."""


def effect_by_hints(tool: FunctionTool) -> Settings:
    """Return how a tool is run that nothing is said of: what its server says only reads is `pure`."""
    hints = tool._mcp_annotations
    reads = hints is not None and (getattr(hints, "readOnlyHint", None) or getattr(hints, "read_only_hint", None))
    return Settings().with_(effect="pure") if reads else Settings()


def with_key(call: Callable[[Any, str], Awaitable[Any]]) -> Callable[[Any, str], Awaitable[Any]]:
    """Return the call of a tool; one to an MCP server takes the step's idempotency key along."""
    if not isinstance(call, functools.partial) or not _is_mcp(call.func):
        return call
    meta = {**(call.keywords.get("meta") or {}), KEY: outlast.idempotency_key()}
    return functools.partial(call, meta=meta)


def _is_mcp(function: Any) -> bool:
    found = getattr(function, "__func__", None)
    return found is not None and found is getattr(MCPUtil.invoke_mcp_tool, "__func__", None)
