"""A codec around another: encryption, compression, signatures."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from typing import Any, Final

from outlast.codec.protocol import Codec
from outlast.core.errors import DecodingError, EncodingError, StepError
from outlast.core.telling import error_line, text_of_error

_log: Final = logging.getLogger("outlast.codec")
_UNWRITABLE: Final = b""  # in place of an error that could not be wrapped: it unwraps to nothing readable


class WrappedCodec:
    """Passes the bytes of `inner` through `wrap` on their way to the store and through `unwrap` on their way back.

        box = Fernet(key)
        codec = WrappedCodec(JsonCodec(), wrap=box.encrypt, unwrap=box.decrypt)

    Nothing that `wrap` was to protect is ever stored without it: an error that cannot be wrapped is stored as nothing
    and read back as a `StepError` that says so. The size limit is that of `inner`, before wrapping.

    Encryption gives other bytes each time, so arguments are compared on replay by a digest of the bytes of `inner`.
    """

    def __init__(self, inner: Codec, wrap: Callable[[bytes], bytes], unwrap: Callable[[bytes], bytes]) -> None:
        self.inner = inner
        self._wrap = wrap
        self._unwrap = unwrap

    def encode(self, value: object) -> bytes:
        """Return the wrapped bytes of `value`; raises `EncodingError`, also when `wrap` fails."""
        data = self.inner.encode(value)
        try:
            return self._wrap(data)
        except Exception as error:
            raise EncodingError(f"$: the codec's wrap failed: {error_line(error)}") from error

    def comparable(self, value: object, encoded: bytes) -> bytes:
        """Return `#` and a digest of the inner bytes of `value`; raises `EncodingError`."""
        inner = self.inner.comparable(value, self.inner.encode(value))
        return b"#" + hashlib.blake2b(inner, digest_size=32).hexdigest().encode()

    def decode(self, data: bytes, type: object = Any) -> Any:
        """Return the value in wrapped `data`; raises `DecodingError`, also when `unwrap` fails."""
        try:
            plain = self._unwrap(data)
        except Exception as error:
            what = error.__class__.__name__
            raise DecodingError(
                f"the codec's unwrap failed: {what}: {text_of_error(error)}. Is it the right key?"
            ) from error
        return self.inner.decode(plain, type)

    def encode_error(self, error: BaseException) -> bytes:
        """Return the wrapped bytes of `error`; never raises."""
        try:
            return self._wrap(self.inner.encode_error(error))
        except Exception:  # noqa: BLE001  # the user's function
            _log.exception("an error of type %s could not be wrapped: stored without its content", type(error))
            return _UNWRITABLE

    def decode_error(self, data: bytes) -> BaseException:
        """Return the error in wrapped `data`, a `StepError` when it cannot be unwrapped; never raises."""
        try:
            if data == _UNWRITABLE:
                raise ValueError("it could not be wrapped when it was recorded; the worker's log says why")
            plain = self._unwrap(data)
        except Exception as failure:  # noqa: BLE001  # the user's function
            text = f"unwrapping failed: {type(failure).__name__}: {failure}"
            return StepError(f"the recorded error cannot be read: {text}", type_name="unknown", text=text)
        return self.inner.decode_error(plain)
