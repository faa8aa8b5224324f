"""What the core needs of a codec."""

from __future__ import annotations

from typing import Any, Protocol


class Codec(Protocol):
    """Values and errors to bytes, and back; `outlast.codec.Codec` says how."""

    def encode(self, value: object) -> bytes: ...

    def comparable(self, value: object, encoded: bytes) -> bytes: ...

    def decode(self, data: bytes, type: Any = Any) -> Any: ...

    def encode_error(self, error: BaseException) -> bytes: ...

    def decode_error(self, data: bytes) -> BaseException: ...
