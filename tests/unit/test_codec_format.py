"""The stored form is fixed: bytes of an earlier version are read by every later one, and digests of them hold."""

import collections
import dataclasses
import datetime as dt
import enum
import math
import pathlib
import uuid
import zoneinfo
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import attrs
import msgspec
import pydantic
import pytest

import outlast.codec
from outlast.codec import JsonCodec
from outlast.codec.tagging import UNTAGGERS

codec = JsonCodec()


@dataclasses.dataclass
class Data:
    a: int


@attrs.define
class Attrs:
    a: int


class Struct(msgspec.Struct):
    a: int


class Model(pydantic.BaseModel, extra="allow"):
    a: int
    b: int = 2
    _c: int = pydantic.PrivateAttr(3)


class Named(NamedTuple):
    a: int


class Tone(enum.Enum):
    LOW = 1


class Bits(enum.Flag):
    A = 1
    B = 2


class Rows(list[int]):
    pass


BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
HERE = __name__

FORMS: list[tuple[Any, str]] = [
    ({"a": [1, 2.5, "x", None, True]}, '{"a":[1,2.5,"x",null,true]}'),
    ("\ud800", '{"$str":"7aCA"}'),
    (2**64, '{"$int":"0x10000000000000000"}'),
    (math.inf, '{"$float":"inf"}'),
    (1 + 2j, '{"$complex":[1.0,2.0]}'),
    (Fraction(1, 3), '{"$fraction":[1,3]}'),
    (Decimal("1.10"), '{"$decimal":"1.10"}'),
    (uuid.UUID(int=1), '{"$uuid":"00000000-0000-0000-0000-000000000001"}'),
    (pathlib.Path("/a"), '{"$path":"/a"}'),
    (pathlib.PurePosixPath("/a"), '{"$purepath":["PurePosixPath","/a"]}'),
    (b"a", '{"$bytes":"YQ=="}'),
    (bytearray(b"a"), '{"$bytearray":"YQ=="}'),
    (dt.datetime(2024, 1, 2, 3, 4, 5, 6, dt.UTC), '{"$datetime":"2024-01-02T03:04:05.000006+00:00"}'),
    (dt.datetime(2024, 1, 2, tzinfo=BERLIN), '{"$datetime":["2024-01-02T00:00:00","Europe/Berlin",0]}'),
    (
        dt.datetime(2024, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=1), "X")),
        '{"$datetime":["2024-01-02T00:00:00",[3600000000,"X"],0]}',
    ),
    (dt.time(1, 2, 3), '{"$time":"01:02:03"}'),
    (dt.time(1, 2, 3, fold=1), '{"$time":["01:02:03",null,1]}'),
    (dt.date(2024, 1, 2), '{"$date":"2024-01-02"}'),
    (dt.timedelta(1, 2, 3), '{"$timedelta":[1,2,3]}'),
    (BERLIN, '{"$zone":"Europe/Berlin"}'),
    (dt.UTC, '{"$zone":[0,null]}'),
    ((1, ()), '{"$tuple":[1,{"$tuple":[]}]}'),
    ({2, 1, "b"}, '{"$set":["b",1,2]}'),
    (frozenset({1}), '{"$frozenset":[1]}'),
    (collections.deque([1], 2), '{"$deque":[[1],2]}'),
    (range(3), '{"$range":[0,3,1]}'),
    ({1: 2}, '{"$dict":[[1,2]]}'),
    ({"$a": 1, "b": 2}, '{"$dict":[["$a",1],["b",2]]}'),
    (collections.OrderedDict(a=1), '{"$ordereddict":{"a":1}}'),
    (collections.Counter("a"), '{"$counter":{"a":1}}'),
    (collections.defaultdict(list, a=[]), '{"$defaultdict":["list",{"a":[]}]}'),
    (Data(1), f'{{"$dataclass":["{HERE}:Data",{{"a":1}}]}}'),
    (Attrs(1), f'{{"$attrs":["{HERE}:Attrs",{{"a":1}}]}}'),
    (Struct(1), f'{{"$struct":["{HERE}:Struct",{{"a":1}}]}}'),
    (
        Model(a=1, x=2),  # type: ignore[call-arg]
        f'{{"$pydantic":["{HERE}:Model",{{"a":1,"b":2}},{{"set":["a","x"],"extra":{{"x":2}},"private":{{"_c":3}}}}]}}',
    ),
    (Named(1), f'{{"$namedtuple":["{HERE}:Named",{{"a":1}}]}}'),
    (Rows([1]), f'{{"$subclass":["{HERE}:Rows",[1]]}}'),
    (Tone.LOW, f'{{"$enum":["{HERE}:Tone","LOW"]}}'),
    (Bits.A | Bits.B, f'{{"$enum":["{HERE}:Bits",3]}}'),
    (pydantic.AnyUrl("http://a"), '{"$url":["pydantic.networks:AnyUrl","http://a/"]}'),
    (msgspec.UNSET, '{"$unset":null}'),
]


@pytest.mark.parametrize(("value", "form"), FORMS, ids=lambda part: part if isinstance(part, str) else "")
def test_the_stored_form_of_a_value_never_changes(value: Any, form: str) -> None:
    assert codec.encode(value).decode() == form
    assert codec.decode(form.encode()) == value


def test_the_stored_form_of_an_error_never_changes() -> None:
    error = FileNotFoundError(2, "no", "f")
    error.add_note("n")
    error.more = (1,)  # type: ignore[attr-defined]
    error.__cause__ = KeyError("k")
    form = (
        '{"$exception":["builtins:FileNotFoundError",{"text":"[Errno 2] no: \'f\'","args":[2,"no"],'
        '"layout":{"errno":2,"strerror":"no","filename":"f"},"state":{"more":{"$tuple":[1]}},"notes":["n"],'
        '"causes":[[true,"builtins:KeyError","\'k\'"]]}]}'
    )
    assert codec.encode_error(error).decode() == form
    again = codec.decode_error(form.encode())
    assert (type(again), str(again), again.__dict__) == (FileNotFoundError, str(error), error.__dict__)


def test_every_tag_is_pinned_here_and_described() -> None:
    pinned = "".join(form for _, form in FORMS)
    assert [tag for tag in UNTAGGERS if f'"{tag}"' not in pinned] == ["$exception"]
    assert [tag for tag in UNTAGGERS if f"`{tag}`" not in str(outlast.codec.__doc__)] == []
