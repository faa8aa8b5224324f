"""The default codec: JSON with tags."""

from __future__ import annotations

from typing import Any, Final, NoReturn

import msgspec

from outlast.codec import containers, exceptions, instances, pydantic_models, scalars
from outlast.codec.classes import loose_reference
from outlast.codec.exceptions import tag_exception
from outlast.codec.refusal import Refused
from outlast.codec.tagging import Walk, from_json, tag, to_json, too_deep, untag
from outlast.core.errors import DecodingError, EncodingError, PayloadTooLarge, StepError
from outlast.core.telling import error_line, text_of_error

_REGISTERED: Final = (containers, exceptions, instances, pydantic_models, scalars)  # importing them registers tags
_MIB: Final = 2**20
_CUT_PART: Final = 4096  # bytes left of each part of an error that is over the limit
_CUT_TEXT: Final = 1000  # characters left of its message when even that does not fit


class JsonCodec:
    """Stores values as JSON in UTF-8, with tags for what JSON lacks.

    Values come back with the types they had. They are rebuilt by putting their state back, never by running a
    constructor, and their classes are looked up, never imported. The same value gives the same bytes in every process.
    The order of a dict is kept; the order of a set is not part of its value.

    Subclasses of numbers, strings, bytes and dates become their base, and so do the numbers of numpy. What has no
    stored form (locks, files, generators, functions, classes made inside a function, ...) is refused with its path.

    `max_bytes` is the largest encoded size. An error over it is cut, not refused.

        codec = JsonCodec()
        codec.decode(codec.encode({"due": date(2024, 5, 1)}))  # {"due": datetime.date(2024, 5, 1)}
    """

    def __init__(self, max_bytes: int = 16 * _MIB) -> None:
        self._max_bytes = max_bytes

    def encode(self, value: object) -> bytes:
        """Return `value` as JSON; raises `EncodingError` or `PayloadTooLarge`."""
        try:
            data = to_json(tag(value, Walk(self._max_bytes), 0))
        except UnicodeEncodeError:  # a lone surrogate: only a walk that looks at each string finds where
            data = self._encode_odd_text(value)
        except Exception as error:  # noqa: BLE001  # raised again, as one of ours
            self._refuse(error)
        if len(data) > self._max_bytes:
            raise PayloadTooLarge(
                f"$: {len(data)} bytes, and the limit is {self._max_bytes}. Store it elsewhere and keep its address."
            )
        return data

    def comparable(self, value: object, encoded: bytes) -> bytes:
        """Return `encoded`: the same value has the same JSON in every process."""
        return encoded

    def _encode_odd_text(self, value: object) -> bytes:
        try:
            return to_json(tag(value, Walk(self._max_bytes, check_text=True), 0))
        except Exception as error:  # noqa: BLE001  # raised again, as one of ours
            self._refuse(error)

    def _refuse(self, error: Exception) -> NoReturn:
        if isinstance(error, RecursionError):
            error = too_deep()
        if isinstance(error, Refused):
            if error.too_large:
                raise PayloadTooLarge(f"{error.message()} of {self._max_bytes} bytes") from None
            raise EncodingError(error.message()) from error.__cause__
        raise EncodingError(f"$: cannot be stored: {error_line(error)}") from error

    def decode(self, data: bytes, type: object = Any) -> Any:
        """Return the value in `data`; raises `DecodingError`. `type` is where else to look for classes."""
        try:
            value = from_json(data)
            # the first search is for one byte and ten times as fast; most values hold neither
            return untag(value, type) if b"$" in data and b'"$' in data else value
        except DecodingError:
            raise
        except RecursionError:
            raise DecodingError("the stored value is nested too deep to be read here") from None
        except msgspec.DecodeError as error:
            raise DecodingError(f"the stored value is not JSON: {error}") from error
        except Exception as error:
            raise DecodingError(f"the stored value is damaged: {error_line(error)}") from error

    def encode_error(self, error: BaseException) -> bytes:
        """Return `error` as JSON. Parts that cannot be stored become their text; never raises."""
        try:
            for part_bytes in (0, _CUT_PART):
                walk = Walk(self._max_bytes, check_text=True, part_bytes=part_bytes, outcome=True)
                data = to_json(tag_exception(error, walk, 0))
                if len(data) <= self._max_bytes:
                    return data
        except BaseException:  # noqa: BLE001  # user code; an error that hides the error is the worst outcome
            pass
        text = text_of_error(error)[:_CUT_TEXT].encode("utf-8", "replace").decode()
        return to_json({"$exception": [_name_of(error), {"text": text, "args": [text]}]})

    def decode_error(self, data: bytes) -> BaseException:
        """Return the error in `data`, a `StepError` where its class is not found here; never raises."""
        try:
            error = self.decode(data)
            if isinstance(error, BaseException):
                return error
            problem = "not an error"
        except Exception as failure:  # noqa: BLE001  # reading an error must not raise another
            problem = str(failure)
        return StepError(f"the recorded error cannot be read: {problem}", type_name="unknown", text=problem)


def _name_of(error: BaseException) -> str:
    try:
        return loose_reference(type(error)).encode("utf-8", "replace").decode()
    except Exception:  # noqa: BLE001  # a metaclass can make even the name of a class fail
        return "unknown:Exception"
