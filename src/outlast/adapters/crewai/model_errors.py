"""Errors of providers' clients, as they come back from a journal.

They carry the HTTP response, which no journal keeps. What the framework asks of it is the status and the headers (it
tries again where there were too many requests), so these are kept beside the error, and the response is made again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_KEPT = "outlast_http"


@contextmanager
def kept() -> Iterator[None]:
    """In the step: keep what an error says of its request and its response, as text."""
    try:
        yield
    except Exception as error:
        response: Any = getattr(error, "response", None)
        if hasattr(response, "status_code") and hasattr(response, "headers"):
            request = getattr(error, "request", None)
            http: dict[str, Any] = {"status": int(response.status_code), "text": _text_of(response)}
            http["headers"] = [[name, value] for name, value in response.headers.items()]
            http |= {"method": getattr(request, "method", "POST"), "url": str(getattr(request, "url", ""))}
            setattr(error, _KEPT, http)
        raise


@contextmanager
def restored() -> Iterator[None]:
    """In the body: give an error its response back."""
    try:
        yield
    except Exception as error:
        http = getattr(error, _KEPT, None)
        client: Any = sys.modules.get(type(getattr(error, "response", None)).__module__.partition(".")[0])
        client = client if hasattr(client, "Response") else sys.modules.get("httpx")
        if isinstance(http, dict) and client is not None:
            # It came over the wire in another encoding than its text has now.
            headers = [(name, value) for name, value in http["headers"] if name.lower() not in _OF_THE_WIRE]
            request = client.Request(http["method"], http["url"] or "http://unknown")
            holder: Any = error
            holder.request = request
            holder.response = client.Response(http["status"], headers=headers, text=http["text"], request=request)
        raise


_OF_THE_WIRE = ("content-encoding", "content-length", "transfer-encoding")


def _text_of(response: Any) -> str:
    try:
        return str(response.text)
    except Exception:  # noqa: BLE001 - a body that was streamed and not read
        return ""
