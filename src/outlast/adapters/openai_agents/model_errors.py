"""Errors of the provider's client, as they come back from a journal.

They carry the HTTP response, which no journal keeps. What code asks of it is its status and its headers (how long to
wait, whether to try again), so these are kept beside the error, and the response is made again from them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from openai import APIError, APIStatusError

_KEPT = "outlast_http"


@contextmanager
def kept() -> Iterator[None]:
    """In the step: keep what an error says of its request and its response, as text."""
    try:
        yield
    except APIError as error:
        request = getattr(error, "request", None)
        http: dict[str, Any] = {"method": getattr(request, "method", "POST"), "url": str(getattr(request, "url", ""))}
        if isinstance(error, APIStatusError):
            http["headers"] = [[name, value] for name, value in error.response.headers.items()]
            http["text"] = _text_of(error.response)
        setattr(error, _KEPT, http)
        raise


@contextmanager
def restored() -> Iterator[None]:
    """In the body: give an error its request and its response back."""
    try:
        yield
    except APIError as error:
        http = getattr(error, _KEPT, None)
        client: Any = sys.modules.get("httpx2") or sys.modules.get("httpx")
        if isinstance(http, dict) and client is not None:
            error.request = client.Request(http["method"], http["url"])
            if isinstance(error, APIStatusError):
                error.response = client.Response(
                    error.status_code, headers=http["headers"], text=http["text"], request=error.request
                )
            delattr(error, _KEPT)
        raise


def _text_of(response: Any) -> str:
    try:
        return str(response.text)
    except Exception:  # noqa: BLE001 - a stream that was not read; each client has an error of its own for that
        return ""
