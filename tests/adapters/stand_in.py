"""A stand-in for a provider of models: OpenAI's chat completions over real HTTP, saying what a test scripts.

    def says(asked: Asked) -> Reply:
        return Reply(text=f"you have said {asked.said(-1)}")

    with serving(says, ledger=tmp_path / "ledger") as stand_in:
        client = AsyncOpenAI(base_url=stand_in.url, api_key="none", max_retries=0)

What is answered depends on the request alone, so whoever asks again is told the same. The server has a thread of the
test's process, so it outlives the processes that the test kills. Every request is written to the ledger when it
arrives, and again when its answer was sent as a whole.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CREATED = 1_700_000_000


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool that the model asks for."""

    id: str
    name: str
    args: dict[str, Any]

    @property
    def wire(self) -> dict[str, Any]:
        """The call as the provider writes it."""
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": json.dumps(self.args)}}


@dataclass(frozen=True)
class Reply:
    """What the model says. `before(n)` is called in the server's thread before the n-th piece of a stream is sent."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    status: int = 200
    input_tokens: int = 10
    output_tokens: int = 5
    before: Callable[[int], None] | None = None


@dataclass(frozen=True)
class Asked:
    """A request: its body, and which it is of all that this server was asked, from 0."""

    number: int
    path: str
    body: dict[str, Any]

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation so far."""
        return list(self.body["messages"])

    def said(self, at: int) -> str:
        """Return the text of one of the messages."""
        return str(self.messages[at].get("content") or "")

    def results(self) -> dict[str, str]:
        """Return what tools have answered in this conversation, by the ids of the calls."""
        return {m["tool_call_id"]: str(m["content"]) for m in self.messages if m["role"] == "tool"}

    @property
    def digest(self) -> str:
        """What tells this conversation from others, the same each time."""
        return hashlib.sha256(json.dumps(self.messages, sort_keys=True).encode()).hexdigest()[:12]


Script = Callable[[Asked], Reply]


@dataclass
class StandIn:
    """A server that runs. `url` is the base url for clients."""

    script: Script
    ledger: Path
    port: int = 0
    _count: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    @property
    def url(self) -> str:
        """The base url that clients are given."""
        return f"http://127.0.0.1:{self.port}/v1"

    def asked(self) -> list[dict[str, Any]]:
        """Return the bodies of all requests that arrived, in order."""
        return [line["body"] for line in self._lines() if line["what"] == "asked"]

    def answered(self) -> list[dict[str, Any]]:
        """Return the bodies of all requests whose answers were sent as a whole."""
        return [line["body"] for line in self._lines() if line["what"] == "answered"]

    def _lines(self) -> list[dict[str, Any]]:
        if not self.ledger.exists():
            return []
        return [json.loads(line) for line in self.ledger.read_text().splitlines()]

    def _write(self, what: str, asked: Asked) -> None:
        line = json.dumps({"what": what, "number": asked.number, "path": asked.path, "body": asked.body})
        with self._lock, self.ledger.open("a") as file:
            file.write(line + "\n")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                asked = await self._read(reader)
                self._write("asked", asked)
                await self._answer(asked, writer)
                self._write("answered", asked)
        self._open.discard(writer)
        writer.close()

    def close(self) -> None:
        """Close all connections, on which clients wait for nothing."""
        for writer in self._open:
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> Asked:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *headers = head.decode().split("\r\n")
        named = dict(line.lower().split(": ", 1) for line in headers if ": " in line)
        body = json.loads(await reader.readexactly(int(named.get("content-length", "0"))) or b"{}")
        number, self._count = self._count, self._count + 1
        return Asked(number, first.split(" ")[1], body)

    async def _answer(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        # A script may wait for a process to end: other requests are served meanwhile.
        reply = await asyncio.to_thread(self.script, asked)
        if reply.status != 200:
            _send(writer, reply.status, json.dumps({"error": {"message": reply.text, "type": "scripted"}}).encode())
        elif asked.body.get("stream"):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            for n, piece in enumerate(_pieces(asked, reply)):
                if reply.before is not None:
                    await asyncio.to_thread(reply.before, n)
                writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                await writer.drain()
            writer.write(b"0\r\n\r\n")
        else:
            if reply.before is not None:
                await asyncio.to_thread(reply.before, 0)
            _send(writer, 200, json.dumps(_completion(asked, reply)).encode())
        await writer.drain()


def _send(writer: asyncio.StreamWriter, status: int, body: bytes) -> None:
    head = f"HTTP/1.1 {status} Said\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)


def _usage(reply: Reply) -> dict[str, int]:
    both = reply.input_tokens + reply.output_tokens
    return {"prompt_tokens": reply.input_tokens, "completion_tokens": reply.output_tokens, "total_tokens": both}


def _base(asked: Asked, kind: str) -> dict[str, Any]:
    model = asked.body.get("model", "stand-in")
    return {"id": f"chatcmpl-{asked.digest}", "object": kind, "created": CREATED, "model": model}


def _completion(asked: Asked, reply: Reply) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.calls:
        message["tool_calls"] = [call.wire for call in reply.calls]
    finish = "tool_calls" if reply.calls else "stop"
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return _base(asked, "chat.completion") | {"choices": [choice], "usage": _usage(reply)}


def _pieces(asked: Asked, reply: Reply) -> Iterator[bytes]:
    """Return the pieces of a streamed answer: one for each word, one for each call of a tool, and the end."""
    words = reply.text.split(" ") if reply.text else []
    deltas: list[dict[str, Any]] = [
        {"role": "assistant", "content": word if n == 0 else f" {word}"} for n, word in enumerate(words)
    ]
    deltas += [{"role": "assistant", "tool_calls": [{"index": n} | call.wire]} for n, call in enumerate(reply.calls)]
    base = _base(asked, "chat.completion.chunk")
    for delta in deltas:
        yield _event(base | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    finish = "tool_calls" if reply.calls else "stop"
    yield _event(base | {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    if (asked.body.get("stream_options") or {}).get("include_usage"):  # a provider tells it to those who ask
        yield _event(base | {"choices": [], "usage": _usage(reply)})
    yield b"data: [DONE]\n\n"


def _event(value: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()


@contextmanager
def serving(script: Script, ledger: Path, kind: type[StandIn] = StandIn) -> Iterator[StandIn]:
    """Run a stand-in in a thread of its own for the `with` block."""
    stand_in = kind(script, ledger)
    started, stop = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def main() -> None:
        async with await asyncio.start_server(stand_in._serve, "127.0.0.1", 0) as server:
            stand_in.port = server.sockets[0].getsockname()[1]
            started.set()
            await stop.wait()
            stand_in.close()
        serving = asyncio.all_tasks() - {asyncio.current_task()}
        if serving:
            await asyncio.wait(serving, timeout=10)

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(main())

    thread = threading.Thread(target=run, name="stand-in")
    thread.start()
    try:
        assert started.wait(10)
        yield stand_in
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
