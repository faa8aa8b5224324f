"""A codec small enough to be beyond doubt: JSON without tags, and errors by the name of their class.

Tuples come back as lists and keys as strings, so that a body that is handed a live object
instead of the recorded one gives itself away.
"""

from __future__ import annotations

from asyncio import CancelledError
from typing import Any

import msgspec

from outlast.core import errors
from outlast.core.errors import DecodingError, EncodingError, OutlastError, StepError


class Boom(Exception):
    """What the steps of the tests raise."""


_KNOWN: dict[str, type[BaseException]] = {
    cls.__name__: cls
    for cls in (Boom, ValueError, KeyError, TimeoutError, RuntimeError, StopIteration, CancelledError, SystemExit)
} | {name: cls for name, cls in vars(errors).items() if isinstance(cls, type) and issubclass(cls, OutlastError)}


class PlainCodec:
    """See the top of this file."""

    def encode(self, value: object) -> bytes:
        try:
            return msgspec.json.encode(value)
        except (TypeError, UnicodeEncodeError, RecursionError) as error:
            raise EncodingError(f"$: {error}") from error

    def comparable(self, value: object, encoded: bytes) -> bytes:
        return encoded

    def decode(self, data: bytes, type: Any = Any) -> Any:
        try:
            return msgspec.json.decode(data)
        except msgspec.DecodeError as error:
            raise DecodingError(str(error)) from error

    def encode_error(self, error: BaseException) -> bytes:
        return msgspec.json.encode([type(error).__name__, [str(arg) for arg in error.args]])

    def decode_error(self, data: bytes) -> BaseException:
        name, args = msgspec.json.decode(data)
        if name in _KNOWN:
            return _KNOWN[name](*args)
        return StepError(f"{name}: {args}", type_name=name, text=str(args))
