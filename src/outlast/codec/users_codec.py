"""A codec that somebody else wrote, held to what a codec promises."""

from __future__ import annotations

import logging
from typing import Any, Final

from outlast.codec.json_codec import JsonCodec
from outlast.codec.protocol import Codec, is_codec
from outlast.core.errors import DecodingError, EncodingError, StepError
from outlast.core.telling import error_line, text_of_error

_log: Final = logging.getLogger("outlast.codec")
_UNWRITABLE: Final = b""  # in place of an error that could not be encoded in any form


def held_to_its_promises(codec: Codec) -> Codec:
    """Return a codec that fails as a codec does, whatever `codec` raises or returns; what is no codec as it is."""
    if type(codec) is JsonCodec or not is_codec(codec):
        return codec
    return UsersCodec(codec)


class UsersCodec:
    """Passes everything to `inner`.

    What `inner` raises becomes `EncodingError` or `DecodingError`. A step whose result it cannot encode has failed
    then, once, and its effect is not repeated; without this the run could not go on, and would repeat it.
    """

    def __init__(self, inner: Codec) -> None:
        self.inner = inner

    def encode(self, value: object) -> bytes:
        """Return `value` as bytes; raises `EncodingError`, whatever happens."""
        try:
            return _bytes(self.inner.encode(value), "encode")
        except EncodingError:
            raise
        except Exception as error:
            raise EncodingError(f"$: the codec's encode failed: {error_line(error)}") from error

    def comparable(self, value: object, encoded: bytes) -> bytes:
        """Return bytes to compare arguments by; raises `EncodingError`, whatever happens."""
        try:
            return _bytes(self.inner.comparable(value, encoded), "comparable")
        except EncodingError:
            raise
        except Exception as error:
            raise EncodingError(f"$: the codec's comparable failed: {error_line(error)}") from error

    def decode(self, data: bytes, type: object = Any) -> Any:
        """Return the value in `data`; raises `DecodingError`, whatever happens."""
        try:
            return self.inner.decode(data, type)
        except DecodingError:
            raise
        except Exception as error:
            raise DecodingError(f"the codec's decode failed: {error_line(error)}") from error

    def encode_error(self, error: BaseException) -> bytes:
        """Return `error` as bytes, or else a `StepError` with its type and text; never raises."""
        try:
            return _bytes(self.inner.encode_error(error), "encode_error")
        except Exception:  # noqa: BLE001  # the user's codec
            _log.exception("the codec could not encode an error of type %s", type(error))
        try:
            return _bytes(self.inner.encode_error(_stand_in(error)), "encode_error")
        except Exception:  # noqa: BLE001  # the user's codec
            return _UNWRITABLE

    def decode_error(self, data: bytes) -> BaseException:
        """Return the error in `data`, a `StepError` when that fails; never raises."""
        try:
            if data == _UNWRITABLE:
                raise ValueError("it could not be encoded when it was recorded; the worker's log says why")
            found: object = self.inner.decode_error(data)
            if not isinstance(found, BaseException):
                raise TypeError(f"the codec's decode_error returned {type(found).__name__}, not an exception")
        except Exception as failure:  # noqa: BLE001  # the user's codec
            text = f"{type(failure).__name__}: {failure}"
            return StepError(f"the recorded error cannot be read: {text}", type_name="unknown", text=text)
        return found


def _bytes(data: object, what: str) -> bytes:
    if not isinstance(data, bytes):
        raise EncodingError(f"$: the codec's {what} returned {type(data).__name__}, not bytes")
    return data


def _stand_in(error: BaseException) -> StepError:
    kind = f"{type(error).__module__}:{type(error).__qualname__}"
    text = text_of_error(error)
    return StepError(f"{kind}: {text}", type_name=kind, text=text)
