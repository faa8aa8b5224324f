"""The stand-in for a provider, as the framework's own client library speaks to one: Gemini's API.

Scripts are given requests in the words of the shared stand-in, and what they say is put into Gemini's. Calls of tools
have no ids here, as they have none from many models: in a script an answer is found by the name of its tool and the
order of its calls (`weather-2`).
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.adapters.stand_in import Asked, Reply, StandIn


class GeminiStandIn(StandIn):
    """Speaks `generateContent` and `streamGenerateContent`."""

    @property
    def url(self) -> str:
        """The base url that clients are given."""
        return f"http://127.0.0.1:{self.port}"

    async def _read(self, reader: asyncio.StreamReader) -> Asked:
        asked = await super()._read(reader)
        body = {"messages": messages_of(asked.body), "stream": ":streamGenerateContent" in asked.path}
        return Asked(asked.number, asked.path, body)

    async def _answer(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        reply = await asyncio.to_thread(self.script, asked)
        streamed = asked.body["stream"] and reply.status == 200
        kind = "text/event-stream" if streamed else "application/json"
        # The framework keeps its clients open: a connection for each request leaves none behind.
        head = f"HTTP/1.1 {reply.status} Said\r\nconnection: close\r\ncontent-type: {kind}\r\n"
        writer.write(f"{head}transfer-encoding: chunked\r\n\r\n".encode())
        for n, piece in enumerate(_pieces(reply, streamed=streamed)):
            if reply.before is not None:
                await asyncio.to_thread(reply.before, n)
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()


def messages_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a conversation as Gemini's requests have it, in the words of the shared stand-in."""
    system = body.get("systemInstruction", {"parts": []})
    messages: list[dict[str, Any]] = [{"role": "system", "content": _text(system["parts"])}]
    asked, answered = Counter[str](), Counter[str]()
    for content in body["contents"]:
        parts = content["parts"]
        calls = [_numbered(part["functionCall"], asked) for part in parts if "functionCall" in part]
        if content["role"] == "model":
            messages.append({"role": "assistant", "content": _text(parts), "tool_calls": calls})
            continue
        responses = [part["functionResponse"] for part in parts if "functionResponse" in part]
        messages += [
            {"role": "tool", "tool_call_id": _numbered(said, answered)["id"], "content": json.dumps(said["response"])}
            for said in responses
        ]
        if _text(parts):
            messages.append({"role": "user", "content": _text(parts)})
    return messages


def _numbered(call: dict[str, Any], counts: Counter[str]) -> dict[str, Any]:
    counts[call["name"]] += 1
    return {"id": f"{call['name']}-{counts[call['name']]}", "name": call["name"], "args": call.get("args", {})}


def _text(parts: list[dict[str, Any]]) -> str:
    return "".join(part.get("text", "") for part in parts)


def _pieces(reply: Reply, *, streamed: bool) -> Iterator[bytes]:
    """Return an answer, whole or in pieces: one for each word, and one for the calls of tools and the end."""
    if reply.status != 200:
        yield json.dumps({"error": {"code": reply.status, "message": reply.text, "status": "SCRIPTED"}}).encode()
        return
    words = reply.text.split(" ") if reply.text else []
    texts = [{"text": word if n == 0 else f" {word}"} for n, word in enumerate(words)]
    calls = [{"functionCall": {"name": call.name, "args": call.args}} for call in reply.calls]
    if not streamed:
        yield json.dumps(_answer([{"text": reply.text}] * bool(words) + calls, reply)).encode()
        return
    for text in texts[: None if calls else -1]:
        yield _event({"candidates": [{"content": {"role": "model", "parts": [text]}, "index": 0}]})
    yield _event(_answer(calls or texts[-1:], reply))


def _answer(parts: list[dict[str, Any]], reply: Reply) -> dict[str, Any]:
    both = reply.input_tokens + reply.output_tokens
    return {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {
            "promptTokenCount": reply.input_tokens,
            "candidatesTokenCount": reply.output_tokens,
            "totalTokenCount": both,
        },
        "modelVersion": "stand-in",
    }


def _event(value: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()
