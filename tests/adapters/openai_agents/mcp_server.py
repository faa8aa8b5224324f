"""An MCP server of a process of its own: `python -m tests.adapters.openai_agents.mcp_server LEDGER`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import ToolAnnotations

server = MCPServer("shop")
ledger = Path(sys.argv[1])


def note(what: str, context: Context[Any, Any]) -> None:
    """Note a call, and the key that came with it."""
    meta = context.request_context.meta or {}
    with ledger.open("a") as file:
        file.write(json.dumps({"what": what, "key": dict(meta).get("outlast/idempotency_key")}) + "\n")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def price(item: str, context: Context[Any, Any]) -> str:
    """Tell a price."""
    note("price", context)
    return f"{item} costs 3"


@server.tool()
def order(item: str, context: Context[Any, Any]) -> str:
    """Order something."""
    note("order", context)
    return f"{item} is ordered"


@server.tool()
def refuse(context: Context[Any, Any]) -> str:
    """Fail."""
    note("refuse", context)
    raise ValueError("sold out")


if __name__ == "__main__":
    server.run("stdio")
