"""What the rest of Outlast knows of a codec: values and errors to bytes, and back."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Codec(Protocol):
    """Turns values and errors into bytes for a store, and back.

    A codec must be deterministic if argument digests are taken over its output: the same value gives the
    same bytes in every process. `JsonCodec` is; a `WrappedCodec` that encrypts is not (see there).
    """

    def encode(self, value: object) -> bytes:
        """Return `value` as bytes.

        Raises `EncodingError` when a part cannot be stored (the message starts with its path) and
        `PayloadTooLarge` when the result is over the codec's limit.
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
