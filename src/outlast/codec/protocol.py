"""What the rest of Outlast knows of a codec: values and errors to bytes, and back."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Codec(Protocol):
    """Turns values and errors into bytes for a store, and back.

    `encode` may give other bytes each time (encryption); `comparable` may not.
    """

    def encode(self, value: object) -> bytes:
        """Return `value` as bytes.

        Raises `EncodingError` when a part cannot be stored (the message starts with its path) and
        `PayloadTooLarge` when the result is over the codec's limit.
        """

    def comparable(self, value: object, encoded: bytes) -> bytes:
        """Return bytes that are the same for the same value in every process, to compare arguments on replay.

        `encoded` is what `encode` made of the value just now. The bytes are recorded, so they must not show
        what the codec hides. Raises like `encode`.
        """

    def decode(self, data: bytes, type: object = Any) -> Any:
        """Return the value that `data` holds, of the types it had when it was encoded.

        `type` is the annotation of the place the value goes to (a return type, a parameter's type). Classes that
        are not found under their recorded name are searched there. Raises `DecodingError`.
        """

    def encode_error(self, error: BaseException) -> bytes:
        """Return `error` as bytes. Never raises, whatever the exception holds."""

    def decode_error(self, data: bytes) -> BaseException:
        """Return the error that `data` holds, or a `StepError` in its place. Never raises."""


def is_codec(value: object) -> bool:
    """Tell whether an object has the methods of a codec, be it by `__getattr__`, which `isinstance` no longer asks."""
    methods = ("encode", "comparable", "decode", "encode_error", "decode_error")
    return not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in methods)
