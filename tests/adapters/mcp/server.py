"""A server of tools over real HTTP, in a thread of the test's process, that writes down every call of a tool."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel

KEY = "outlast/idempotency_key"


class Leave(BaseModel):
    """What people fill in."""

    sure: bool
    limit: int = 0


class Shop:
    """The server. `victim` is the process that it kills in the midst of a call: of this tool, the n-th that comes."""

    def __init__(self, ledger: Path) -> None:
        self.ledger = ledger
        self.victim = 0
        self.kills: tuple[str, int] | None = None
        self.lock = threading.Lock()
        self.came: Counter[str] = Counter()
        self.url = ""
        self.server = MCPServer("shop")
        self._tools()

    def write(self, what: str, key: str, **more: Any) -> None:
        """Note a deed."""
        with self.lock, self.ledger.open("a") as file:
            file.write(json.dumps({"what": what, "key": key, **more}) + "\n")

    def done(self, what: str) -> list[dict[str, Any]]:
        """Return the deeds of one kind."""
        lines = self.ledger.read_text().splitlines() if self.ledger.exists() else []
        return [line for line in map(json.loads, lines) if line["what"] == what]

    def act(self, what: str, ctx: Context[Any, Any], **more: Any) -> None:
        """Do something, and kill who asked for it if that is to be."""
        self.write(what, (ctx.request_context.meta or {}).get(KEY, ""), **more)
        self.came[what] += 1
        if self.victim and (what, self.came[what]) == self.kills:
            os.kill(self.victim, signal.SIGKILL)

    def _tools(self) -> None:
        @self.server.tool(annotations=types.ToolAnnotations(read_only_hint=True))
        def look(topic: str, ctx: Context[Any, Any]) -> str:
            self.act("look", ctx, topic=topic)
            return f"all about {topic}"

        @self.server.tool()
        def note(text: str, ctx: Context[Any, Any]) -> str:
            self.act("note", ctx, text=text)
            return f"noted {text}"

        @self.server.tool(annotations=types.ToolAnnotations(idempotent_hint=False))
        async def pay(amount: int, ctx: Context[Any, Any]) -> types.CallToolResult | types.InputRequiredResult:
            modern = ctx.request_context.protocol_version >= "2026"
            if modern and not ctx.input_responses:
                self.act("asked", ctx)
                params = types.ElicitRequestFormParams(
                    message=f"Pay {amount}?", requested_schema=Leave.model_json_schema()
                )
                return types.InputRequiredResult(
                    input_requests={"ok": types.ElicitRequest(params=params)}, request_state="state"
                )
            if modern:
                answer: Any = (ctx.input_responses or {})["ok"]
                agreed, limit = answer.action == "accept", (answer.content or {}).get("limit")
            else:
                self.act("asked", ctx)
                said: Any = await ctx.elicit(f"Pay {amount}?", Leave)
                agreed, limit = said.action == "accept", said.data.limit if said.action == "accept" else None
            text = "not paid"
            if agreed:
                self.act("pay", ctx, amount=amount)
                text = f"paid {amount} of {limit}"
            return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


@contextmanager
def serving(ledger: Path) -> Iterator[Shop]:
    """Run a server for the `with` block."""
    shop = Shop(ledger)
    listening = socket.create_server(("127.0.0.1", 0))
    app: Any = shop.server.streamable_http_app()
    config = uvicorn.Config(app, log_level="error", lifespan="on", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="shop")
    thread.start()
    try:
        until = time.monotonic() + 20
        while not server.started:
            assert time.monotonic() < until
            time.sleep(0.01)
        shop.url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        yield shop
    finally:
        server.should_exit = True
        thread.join(20)
        listening.close()
