"""What tells a request from others, and what of it is recorded: no header, and nothing of its query.

The key of a request is its method, its URL and its body. Headers are no part of it: they hold secrets, and numbers that
are others each time. Nor are parameters of the query by which some providers take their keys.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

import msgspec

SECRETS = frozenset({"key", "api_key", "api-key", "apikey", "access_token", "token", "sig", "signature", "code"})
BOUNDARY = re.compile(rb'boundary="?([^";,\s]+)', re.IGNORECASE)
NO_BODY = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})


class Asked(msgspec.Struct, frozen=True):
    """A request: as people see it, what tells it from others, and its body."""

    line: str  # `POST https://api.example.com/v1/things`
    digest: str
    method: str
    step: str  # the name of its step
    body: bytes


def asked(request: Any, body: bytes) -> Asked:
    """Return what there is to say of a request with this body."""
    url = request.url
    place = f"{url.scheme}://{url.netloc.decode('ascii', 'replace').rpartition('@')[2]}{url.path}"
    query = sorted(item for item in url.params.multi_items() if item[0].lower() not in SECRETS)
    content = hashlib.blake2b(digest_size=16)
    for part in (request.method.upper().encode(), place.encode(), repr(query).encode(), _stable(request, body)):
        content.update(len(part).to_bytes(8, "big") + part)
    step = "http_" + re.sub(r"\W+", "_", url.host or "local")
    return Asked(f"{request.method.upper()} {place}", content.hexdigest(), request.method.upper(), step, body)


def _stable(request: Any, body: bytes) -> bytes:
    """Return a body without the text that parts its parts, which is drawn at random."""
    found = BOUNDARY.search(request.headers.get("content-type", "").encode())
    if found is None or not request.headers["content-type"].startswith("multipart/"):
        return body
    return body.replace(found[1], b"boundary")


def outgoing(request: Any, body: bytes, key: str | None) -> Any:
    """Return the request as it is sent: its answer not compressed, so that people can read what is recorded of it.

    `key` is the one that its server can tell a repetition by; one that the client has given itself stays.
    """
    headers = request.headers.copy()
    if "accept-encoding" in headers:
        headers["accept-encoding"] = "identity"
    if key is not None and "idempotency-key" not in headers:
        headers["idempotency-key"] = key
    return type(request)(request.method, request.url, headers=headers, content=body, extensions=request.extensions)


class Tries:
    """The keys of one and the same request, sent several times in one place.

    A client that tries again sends the same request, which has to bear the same key; another call that happens to say
    the same has another one.
    """

    __slots__ = ("_failed", "_taken")

    def __init__(self) -> None:
        self._taken = 0
        self._failed: list[int] = []

    def take(self) -> int:
        """Return the number of the call that is sent: of one that has failed, else of a new one."""
        if self._failed:
            return self._failed.pop(0)
        self._taken += 1
        return self._taken

    def failed(self, number: int) -> None:
        """A call has failed, and is likely to be sent again."""
        self._failed.append(number)
        self._failed.sort()
