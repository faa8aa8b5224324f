"""httpx and httpx2: the same interface in two packages, of which a program may have either, or both.

Which one a request is of is known by its class. A response has to be of the same: clients check that.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import cache
from types import ModuleType
from typing import Any

NAMES = ("httpx2", "httpx")


def module_of(request: Any) -> ModuleType:
    """Return the package that a request is of."""
    return sys.modules[type(request).__module__.partition(".")[0]]


def installed() -> list[ModuleType]:
    """Return those of the packages that are here. Raises ModuleNotFoundError where none is."""
    found = []
    for name in NAMES:
        with contextlib.suppress(ModuleNotFoundError):
            found.append(importlib.import_module(name))
    return found or [importlib.import_module(NAMES[0])]


def transport_classes() -> tuple[type, ...]:
    """Return the classes that clients want a transport to be of."""
    return tuple(getattr(module, name) for module in installed() for name in ("BaseTransport", "AsyncBaseTransport"))


def async_stream(module: ModuleType, chunks: AsyncIterator[bytes], close: Callable[[], Awaitable[None]]) -> Any:
    """Return the body of a response that comes piece by piece."""
    return _async_stream(module)(chunks, close)


@cache
def _async_stream(module: ModuleType) -> Any:
    base: Any = module.AsyncByteStream

    class Chunks(base):  # type: ignore[misc]  # the class is known at run time alone
        def __init__(self, chunks: AsyncIterator[bytes], close: Callable[[], Awaitable[None]]) -> None:
            self._chunks = chunks
            self._close = close

        def __aiter__(self) -> AsyncIterator[bytes]:
            return self._chunks

        async def aclose(self) -> None:
            await self._close()

    return Chunks


def whole_stream(module: ModuleType, chunks: Callable[[], Iterator[bytes]]) -> Any:
    """Return the body of a response that is there as a whole, for both kinds of clients."""
    return _whole_stream(module)(chunks)


@cache
def _whole_stream(module: ModuleType) -> Any:
    sync: Any = module.SyncByteStream
    both: Any = module.AsyncByteStream

    class Whole(sync, both):  # type: ignore[misc]  # the classes are known at run time alone
        def __init__(self, chunks: Callable[[], Iterator[bytes]]) -> None:
            self._chunks = chunks

        def __iter__(self) -> Iterator[bytes]:
            return self._chunks()

        async def __aiter__(self) -> AsyncIterator[bytes]:
            for chunk in self._chunks():
                yield chunk

    return Whole


def nothing_was_sent(module: ModuleType) -> tuple[type[Exception], ...]:
    """Return the errors that prove that a request did not reach its server."""
    names = ("ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol", "LocalProtocolError")
    return tuple(getattr(module, name) for name in names)
