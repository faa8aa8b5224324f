"""What tells a request from others, and what of it is recorded: no header, and nothing of its query.

The key of a request is its method, its URL, its body, and those headers that are known, or said, to tell requests
apart. It is recorded as a digest. What of it may be a secret goes into that with what no other run has, so that nobody
who reads the digest finds the secret by trying: a short code is soon found otherwise.

Other headers are no part of it: some are others each time, and a secret may be another one after a crash. Where two
requests of one key differ in such a header, and might be taken for each other, `under_way.py` refuses that.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

import msgspec

from outlast.core.errors import WrongUse

SECRETS = frozenset({"key", "api_key", "api-key", "apikey", "access_token", "token", "sig", "signature", "code"})
IDENTIFIES = frozenset({"range"})
"""Headers that say which part of a thing is asked for, and hold nothing else."""
VARIES = frozenset({
    "accept-encoding", "baggage", "connection", "content-length", "date", "idempotency-key", "keep-alive",
    "traceparent", "tracestate", "user-agent", "x-amz-content-sha256", "x-amz-date", "x-amz-security-token",
    "x-amzn-trace-id", "x-cloud-trace-context", "x-ms-date",
})  # fmt: skip
"""Headers that are others each time, and say nothing of what is asked for."""
VARIES_LIKE = re.compile(
    r"(x-stainless-|x-b3-|x-datadog-|sentry-).*|.*(request|trace|span|correlation|invocation)-?id|"
    r".*-(nonce|timestamp|signature)"
)
AWS_SIGNED = re.compile(r"AWS4-[\w-]+ Credential=([^/]+)")
BOUNDARY = re.compile(rb'boundary="?([^";,\s]+)', re.IGNORECASE)
NO_BODY = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})


class Asked(msgspec.Struct, frozen=True):
    """A request: as people see it, what tells it from others, and its body."""

    line: str  # `POST https://api.example.com/v1/things`
    digest: str
    method: str
    step: str  # the name of its step
    body: bytes


class Telling:
    """What tells requests apart, as a transport was told: headers to look at, headers and parameters to pass over."""

    def __init__(self, identify: Any, ignore: Any) -> None:
        self._identify = IDENTIFIES | _names("identify", identify)
        self._ignore = _names("ignore", ignore)

    def asked(self, request: Any, body: bytes, origin: str) -> Asked:
        """Return what there is to say of a request with this body. `origin` is what no other run has."""
        url = request.url
        place = f"{url.scheme}://{url.netloc.decode('ascii', 'replace').rpartition('@')[2]}{url.path}"
        query = sorted(item for item in url.params.multi_items() if item[0].lower() not in self._ignore)
        shown = [item for item in query if item[0].lower() not in SECRETS]
        secret = [item for item in query if item[0].lower() in SECRETS]
        secret += sorted((name, value) for name, value in _headers(request) if name in self._identify - self._ignore)
        parts = [request.method.upper().encode(), place.encode(), repr(shown).encode(), _stable(request, body)]
        if secret:
            parts.append(f"{origin} {secret!r}".encode())
        content = hashlib.blake2b(digest_size=16)
        for part in parts:
            content.update(len(part).to_bytes(8, "big") + part)
        step = "http_" + re.sub(r"\W+", "_", url.host or "local")
        return Asked(f"{request.method.upper()} {place}", content.hexdigest(), request.method.upper(), step, body)

    def beside(self, request: Any) -> dict[str, list[str]]:
        """Return the headers that are no part of a request's key, and are not known to be others each time."""
        found: dict[str, list[str]] = {}
        for name, value in _headers(request):
            if not (name in self._identify or name in self._ignore or name in VARIES or VARIES_LIKE.fullmatch(name)):
                found.setdefault(name, []).append(_lasting(value))
        return found


def _names(setting: str, given: Any) -> frozenset[str]:
    names = [] if isinstance(given, str) else list(given)
    if isinstance(given, str) or not all(isinstance(name, str) for name in names):
        raise WrongUse(f"DurableTransport({setting}={given!r}): must be a list of names, such as ['x-account']")
    return frozenset(name.lower() for name in names)


def _headers(request: Any) -> list[tuple[str, str]]:
    return [(name.lower(), value) for name, value in request.headers.multi_items()]


def _lasting(value: str) -> str:
    """Return what two requests of one sender have in common in a header: of a signature who has signed, not when."""
    signed = AWS_SIGNED.match(value)
    if signed is not None:
        return signed[1]
    return value.partition(";")[0] if value.startswith("multipart/") else value  # its boundary is drawn at random


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
