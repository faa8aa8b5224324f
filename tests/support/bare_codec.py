"""The codec that one writes first: `json`, with the errors that it raises itself."""

from __future__ import annotations

import json
from typing import Any

import outlast
from outlast import StepError


class BareCodec:
    """See the top of this file."""

    def encode(self, value: object) -> bytes:
        return json.dumps(value).encode()

    def comparable(self, value: object, encoded: bytes) -> bytes:
        return encoded

    def decode(self, data: bytes, type: object = Any) -> Any:
        return json.loads(data)

    def encode_error(self, error: BaseException) -> bytes:
        return json.dumps([type(error).__name__, error.args]).encode()

    def decode_error(self, data: bytes) -> BaseException:
        name, args = json.loads(data)
        known = getattr(outlast, name, None)
        return known(*args) if isinstance(known, type) else StepError(f"{name}: {args}", type_name=name)
