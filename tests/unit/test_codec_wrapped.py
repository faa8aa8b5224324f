"""A codec around another protects everything, and its failures are errors of the codec."""

import zlib

import pytest

from outlast.codec import Codec, JsonCodec, WrappedCodec
from outlast.core.errors import DecodingError, EncodingError, PayloadTooLarge, StepError


def scramble(data: bytes) -> bytes:
    return b"!" + bytes(byte ^ 0x5A for byte in data)


def unscramble(data: bytes) -> bytes:
    if data[:1] != b"!":
        raise ValueError("not scrambled")
    return bytes(byte ^ 0x5A for byte in data[1:])


def fail(data: bytes) -> bytes:
    raise OSError("no key")


codec = WrappedCodec(JsonCodec(), scramble, unscramble)


def test_both_are_codecs() -> None:
    plain: Codec = JsonCodec()
    wrapped: Codec = codec
    assert isinstance(plain, Codec)
    assert isinstance(wrapped, Codec)
    assert codec.inner.encode(1) == b"1"


def test_values_and_errors_pass_through_both() -> None:
    value = {"secret": ("a", {1, 2})}
    data = codec.encode(value)
    assert b"secret" not in data
    assert codec.decode(data) == value
    error = codec.encode_error(KeyError("secret"))
    assert b"secret" not in error
    assert repr(codec.decode_error(error)) == "KeyError('secret')"


def test_wrappers_nest() -> None:
    packed = WrappedCodec(codec, zlib.compress, zlib.decompress)
    assert packed.decode(packed.encode(["x" * 1000])) == ["x" * 1000]


def test_what_the_inner_codec_refuses_is_refused() -> None:
    with pytest.raises(EncodingError, match=r"^\$\[0\]: type object"):
        codec.encode([object()])
    with pytest.raises(PayloadTooLarge):
        WrappedCodec(JsonCodec(max_bytes=10), zlib.compress, zlib.decompress).encode("x" * 100)


def test_failures_of_the_functions_are_errors_of_the_codec() -> None:
    with pytest.raises(EncodingError, match=r"wrap failed: OSError: no key"):
        WrappedCodec(JsonCodec(), fail, fail).encode(1)
    with pytest.raises(DecodingError, match=r"unwrap failed: ValueError: not scrambled.*right key"):
        codec.decode(b"1")


def test_an_error_that_cannot_be_wrapped_is_not_stored_in_the_clear() -> None:
    broken = WrappedCodec(JsonCodec(), fail, unscramble)
    data = broken.encode_error(ValueError("secret"))
    assert b"secret" not in data
    again = broken.decode_error(data)
    assert isinstance(again, StepError)
    assert "could not be wrapped" in str(again)


def test_an_error_that_nobody_wrapped_is_not_believed() -> None:
    for data in (JsonCodec().encode_error(ValueError("forged")), b"", b"\xff"):
        again = codec.decode_error(data)
        assert type(again) is StepError
        assert "forged" not in str(again)
