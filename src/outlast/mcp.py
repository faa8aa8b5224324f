"""Outlast under a client of MCP servers: `pip install 'outlast[mcp]'`."""

from outlast.adapters.extras import needs

with needs("mcp"):
    from outlast.adapters.mcp.asking import elicit
    from outlast.adapters.mcp.results import FailedCall
    from outlast.adapters.mcp.session import DurableSession

__all__ = ["DurableSession", "FailedCall", "elicit"]
