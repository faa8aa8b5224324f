"""What was stored is read by classes that have changed since: fields are new or gone, members are gone."""

import dataclasses
import enum
import logging
from typing import Any, NamedTuple

import attrs
import msgspec
import pydantic
import pytest

from outlast.codec import JsonCodec
from outlast.core.errors import DecodingError

codec = JsonCodec()


@attrs.define
class Order:
    name: str
    lines: list[Any] = attrs.field(factory=list)


class Part(pydantic.BaseModel):
    class Mode(enum.Enum):
        FAST = 1

    mode: Mode
    pair: tuple[int, int] = (1, 2)


class Open(pydantic.BaseModel, extra="allow"):
    a: int


class Wire(msgspec.Struct, frozen=True, kw_only=True):
    a: int
    b: list[int] = []


class Pair(NamedTuple):
    left: int
    right: Any = "r"


@dataclasses.dataclass
class Grown:
    a: int
    b: int = 0
    c: list[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Demanding:
    a: int
    b: int


@dataclasses.dataclass(slots=True)
class Narrow:
    a: int = 1


@attrs.define
class GrownAttrs:
    a: int
    b: int = 0
    c: list[int] = attrs.field(default=attrs.Factory(lambda self: [self.a], takes_self=True))


class GrownModel(pydantic.BaseModel):
    a: int
    b: int = 0
    c: list[int] = pydantic.Field(default_factory=list)


class GrownStruct(msgspec.Struct):
    a: int
    b: int = 0
    c: list[int] = []


class GrownPair(NamedTuple):
    a: int
    b: int = 0


def stored(tag: str, cls: type, **fields: Any) -> bytes:
    return msgspec.json.encode({tag: [f"{cls.__module__}:{cls.__qualname__}", fields]})


@pytest.mark.parametrize(
    ("tag", "cls", "expected"),
    [
        ("$dataclass", Grown, Grown(1)),
        ("$attrs", GrownAttrs, GrownAttrs(1)),
        ("$pydantic", GrownModel, GrownModel(a=1)),
        ("$struct", GrownStruct, GrownStruct(1)),
        ("$namedtuple", GrownPair, GrownPair(1)),
    ],
)
def test_fields_that_are_new_get_their_default(tag: str, cls: type, expected: Any) -> None:
    assert codec.decode(stored(tag, cls, a=1)) == expected


@pytest.mark.parametrize(
    ("tag", "cls"),
    [
        ("$dataclass", Demanding),
        ("$attrs", Order),
        ("$pydantic", Part),
        ("$struct", Wire),
        ("$namedtuple", Pair),
    ],
)
def test_a_new_field_without_default_is_named(tag: str, cls: type) -> None:
    with pytest.raises(DecodingError, match=rf"{cls.__name__} .*(field|argument) '?`?(b|name|mode|a|left)"):
        codec.decode(stored(tag, cls))


def test_fields_that_are_gone_are_kept_where_there_is_room_and_else_reported(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "outlast.codec"):
        for tag, cls in (("$dataclass", Grown), ("$pydantic", GrownModel), ("$pydantic", Open)):
            kept = codec.decode(stored(tag, cls, a=1, gone=2))
            assert kept.gone == 2
            assert b'"gone":2' in codec.encode(kept)
        assert not caplog.records
        assert codec.decode(stored("$dataclass", Narrow, a=1, gone=2)) == Narrow(1)
        assert codec.decode(stored("$struct", GrownStruct, a=1, gone=2)) == GrownStruct(1)
        assert codec.decode(stored("$namedtuple", GrownPair, a=1, gone=2)) == GrownPair(1)
    assert [("gone" in record.getMessage()) for record in caplog.records] == [True] * 3


def test_a_dict_keeps_what_new_code_does_not_know() -> None:
    assert codec.decode(b'{"a":1,"gone":2}', Grown) == {"a": 1, "gone": 2}


def test_an_enum_member_that_is_gone_is_an_error_and_never_none() -> None:
    data = codec.encode(Part.Mode.FAST).replace(b"FAST", b"SLOW")
    with pytest.raises(DecodingError, match=r"Part\.Mode has no member 'SLOW' any more"):
        codec.decode(data)
