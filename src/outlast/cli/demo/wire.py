"""As much of an HTTP client as the demo needs: one JSON request per connection, over asyncio's streams."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import urlsplit


class HttpError(Exception):
    """The server answered, and the answer is not a success."""

    def __init__(self, status: int, url: str) -> None:
        super().__init__(f"{url} answered {status}")
        self.status = status


async def post(url: str, body: dict[str, Any], key: str = "") -> dict[str, Any]:
    """Send JSON, under an idempotency key if there is one, and return the JSON answer. Raises HttpError, OSError."""
    return await _request("POST", url, json.dumps(body).encode(), key)


async def get(url: str) -> dict[str, Any]:
    """Return the JSON found at `url`. Raises HttpError, OSError."""
    return await _request("GET", url, b"", "")


async def _request(method: str, url: str, body: bytes, key: str) -> dict[str, Any]:
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        head = [f"{method} {parts.path} HTTP/1.0", f"Host: {parts.netloc}", f"Content-Length: {len(body)}"]
        if key:
            head.append(f"Idempotency-Key: {key}")
        writer.write("\r\n".join([*head, "", ""]).encode() + body)
        await writer.drain()
        answer = await reader.read()
    finally:
        writer.close()
    status_line, _, rest = answer.partition(b"\r\n")
    if not status_line:
        raise ConnectionResetError(f"{url} closed the connection without an answer")
    status = int(status_line.split()[1])
    if status >= 400:
        raise HttpError(status, url)
    found: dict[str, Any] = json.loads(rest.partition(b"\r\n\r\n")[2])
    return found
