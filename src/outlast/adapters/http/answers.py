"""What is recorded of an answer, and the response that is made of it.

An answer is recorded as its bytes and its headers, without those that hold secrets or speak of one connection. One with
a status of 400 and more, and one that breaks off, is recorded as the *failure* of its step: the client is told it all
the same, and where that ends the run, `resume` asks again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import msgspec

from outlast.adapters.http.flavours import whole_stream
from outlast.core.errors import OutlastError, WrongUse

NOT_KEPT = frozenset({
    "authorization", "connection", "content-length", "keep-alive", "proxy-authenticate", "set-cookie", "set-cookie2",
    "transfer-encoding",
})  # fmt: skip
TRIED_AGAIN = frozenset({408, 409, 425, 429})
"""Beside 500 and more: for these clients send the same request again."""
NO_ANSWER = frozenset({408, 409, 425})
"""Below 500: these do not say that nothing was done."""
MOST_TOLD = 300


class Answer(msgspec.Struct, frozen=True):
    """An answer as it is recorded. `sizes` are those of the pieces it came in; `whole` is False where it was closed."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    sizes: list[int]
    whole: bool = True

    def plain(self) -> dict[str, Any]:
        """Return what the journal keeps: text where it is text, so that people can read it."""
        kept: dict[str, Any] = {"status": self.status, "headers": dict(self.headers), "body": _text(self.body)}
        if len(dict(self.headers)) < len(self.headers):
            kept["headers"] = [list(pair) for pair in self.headers]
        if len(self.sizes) > 1:
            kept["sizes"] = self.sizes
        if not self.whole:
            kept["whole"] = False
        return kept

    def chunks(self) -> Iterator[bytes]:
        """Return the pieces that it came in."""
        at = 0
        for size in self.sizes or [len(self.body)]:
            yield self.body[at : at + size]
            at += size


class FailedResponse(OutlastError):
    """A request was answered with an error, or its answer broke off: the failure of its step, as its record has it.

    The client is given the response itself, and raises an error of its own.
    """

    def __init__(self, message: str = "", *, answer: dict[str, Any] | None = None, broke: str = "") -> None:
        super().__init__(message)
        self.answer = answer or {}
        self.broke = broke  # the class of the error that it broke off with


class RefusedResponse(FailedResponse):
    """A request was answered with an error that says that nothing was done."""


def answer_of(kept: Any) -> Answer:
    """Return the answer that a journal keeps, or that a person gave who resolved a doubt. Raises WrongUse."""
    if not isinstance(kept, dict) or not isinstance(kept.get("status"), int):
        raise WrongUse(
            'an answer is an object with a status, and headers and a body if there are: {"status": 200, "body": "{}"}, '
            f"not {kept!r}"
        )
    headers = kept.get("headers", {})
    pairs = list(headers.items()) if isinstance(headers, dict) else [(name, value) for name, value in headers]
    body = kept.get("body", b"")
    if not isinstance(body, str | bytes):
        body = msgspec.json.encode(body).decode()
        pairs = pairs if any(name == "content-type" for name, _ in pairs) else [*pairs, JSON]
    data = body.encode("utf-8", "surrogateescape") if isinstance(body, str) else body
    return Answer(kept["status"], pairs, data, kept.get("sizes", []), kept.get("whole", True))


JSON = ("content-type", "application/json")


def failure_of(answer: Answer, line: str, broke: BaseException | None = None) -> FailedResponse:
    """Return the failure that an answer is recorded as. `line` is the request as people see it."""
    if broke is not None:
        said = f"{line}: the answer broke off: {type(broke).__name__}: {broke}"
        return FailedResponse(said, answer=answer.plain(), broke=type(broke).__name__)
    refused = answer.status < 500 and answer.status not in NO_ANSWER
    text = " ".join(answer.body.decode("utf-8", "replace").split())
    text = text if len(text) <= MOST_TOLD else f"{text[:MOST_TOLD]}..."
    kind = RefusedResponse if refused else FailedResponse
    return kind(f"{line}: {answer.status} {text}".rstrip(), answer=answer.plain())


def is_tried_again(error: BaseException) -> bool:
    """Tell whether a client is likely to send its request again."""
    if not isinstance(error, FailedResponse):
        return isinstance(error, Exception)
    return bool(error.broke) or answer_of(error.answer).status in TRIED_AGAIN or answer_of(error.answer).status >= 500


def kept_headers(response: Any) -> list[tuple[str, str]]:
    """Return what is recorded of the headers of a response."""
    return [(name, value) for name, value in response.headers.multi_items() if name.lower() not in NOT_KEPT]


def response_of(module: ModuleType, answer: Answer, end: Callable[[], None], *, at_once: bool = False) -> Any:
    """Return the response that is made of an answer; `end` is called behind its last piece, and may raise.

    With `at_once` a client that waits before it tries again is told not to: it has done so before.
    """

    def chunks() -> Iterator[bytes]:
        yield from answer.chunks()
        end()

    headers = answer.headers
    if at_once:
        headers = [(name, value) for name, value in headers if not name.lower().startswith("retry-after")]
        headers = [*headers, ("retry-after-ms", "1"), ("retry-after", "0")]
    return module.Response(answer.status, headers=headers, stream=whole_stream(module, chunks))


def _text(body: bytes) -> str | bytes:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return body
    return body if "\0" in text else text
