"""A codec that a user wrote fails as a codec does, whatever it raises or returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from outlast.codec import Codec, JsonCodec
from outlast.codec.users_codec import UsersCodec, held_to_its_promises
from outlast.core.errors import DecodingError, EncodingError, PayloadTooLarge, StepError
from tests.support.bare_codec import BareCodec


class Doing(BareCodec):
    """Has one method that does something else."""

    def __init__(self, **methods: Callable[..., Any]) -> None:
        for name, method in methods.items():
            setattr(self, name, method)


def fail(*_: object) -> Any:
    raise OSError("no key")


def test_the_default_codec_needs_no_guard() -> None:
    codec = JsonCodec()
    assert held_to_its_promises(codec) is codec
    guarded: Codec = held_to_its_promises(BareCodec())
    assert isinstance(guarded, UsersCodec)
    assert guarded.decode(guarded.encode({"a": [1]})) == {"a": [1]}


def test_what_it_raises_is_an_error_of_the_codec() -> None:
    with pytest.raises(EncodingError, match=r"^\$: the codec's encode failed: TypeError: .*set"):
        UsersCodec(BareCodec()).encode({1})
    with pytest.raises(EncodingError, match="the codec's comparable failed: OSError: no key"):
        UsersCodec(Doing(comparable=fail)).comparable(1, b"1")
    with pytest.raises(DecodingError, match="the codec's decode failed: JSONDecodeError"):
        UsersCodec(BareCodec()).decode(b"{")


def test_what_it_raises_by_the_book_stays_as_it_is() -> None:
    codec = UsersCodec(JsonCodec(max_bytes=10))
    with pytest.raises(PayloadTooLarge):
        codec.encode("x" * 100)
    with pytest.raises(EncodingError, match=r"^\$\[0\]: type object"):
        codec.encode([object()])
    with pytest.raises(DecodingError, match="JSON"):
        codec.decode(b"{")


@pytest.mark.parametrize("wrong", ["text", None, bytearray(b"x"), 5], ids=str)
def test_what_it_returns_has_to_be_bytes(wrong: object) -> None:
    codec = UsersCodec(Doing(encode=lambda _: wrong, comparable=lambda *_: wrong))
    with pytest.raises(EncodingError, match=r"returned .*, not bytes"):
        codec.encode(1)
    with pytest.raises(EncodingError, match=r"returned .*, not bytes"):
        codec.comparable(1, b"1")


def test_an_error_that_it_cannot_encode_keeps_its_type_and_text() -> None:
    codec = UsersCodec(BareCodec())
    back = codec.decode_error(codec.encode_error(ValueError({1})))
    assert isinstance(back, StepError)
    assert str(back) == "builtins:ValueError: {1}"


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("error", [ValueError("x"), Unspeakable(object())], ids=lambda e: type(e).__name__)
def test_where_errors_cannot_be_encoded_at_all_that_is_said(error: Exception) -> None:
    codec = UsersCodec(Doing(encode_error=fail))
    back = codec.decode_error(codec.encode_error(error))
    assert isinstance(back, StepError)
    assert "could not be encoded" in str(back)


@pytest.mark.parametrize("decode_error", [fail, lambda _: "no exception"], ids=["raises", "returns text"])
def test_an_error_that_it_cannot_decode_is_a_step_error(decode_error: Callable[..., Any]) -> None:
    back = UsersCodec(Doing(decode_error=decode_error)).decode_error(b"[1]")
    assert isinstance(back, StepError)
    assert "the recorded error cannot be read" in str(back)
