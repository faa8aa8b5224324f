"""What goes into the default codec comes out with the same types and values."""

import collections
import datetime as dt
import enum
import http
import math
import pathlib
import uuid
import zoneinfo
from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.codec import JsonCodec
from outlast.codec.tagging import Walk, tag

codec = JsonCodec()


def round_trip(value: Any) -> Any:
    data = codec.encode(value)
    again = codec.decode(data)
    assert codec.encode(again) == data, "the bytes changed on the way, and with them a digest of them"
    return again


def same(one: Any, two: Any) -> bool:
    """Equal in type and value all the way down; nan equals nan, 0.0 is not -0.0."""
    if type(one) is not type(two):
        return False
    if isinstance(one, float):
        return repr(one) == repr(two)
    if isinstance(one, complex):
        return same(one.real, two.real) and same(one.imag, two.imag)
    if isinstance(one, Decimal):
        return str(one) == str(two)
    if isinstance(one, dict):
        return len(one) == len(two) and all(
            same(key, other) and same(one[key], two[other]) for key, other in zip(one, two, strict=True)
        )
    if isinstance(one, list | tuple | collections.deque):
        return len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, dt.datetime | dt.time):
        return one == two and repr(one) == repr(two) and one.fold == two.fold
    return bool(one == two)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
ZONES = (
    st.none()
    | st.just(dt.UTC)
    | st.builds(dt.timezone, st.timedeltas(dt.timedelta(hours=-23), dt.timedelta(hours=23)))
    | st.builds(dt.timezone, st.timedeltas(dt.timedelta(hours=-23), dt.timedelta(hours=23)), st.text())
    | st.sampled_from([zoneinfo.ZoneInfo(key) for key in ("UTC", "Europe/Berlin", "America/Argentina/Ushuaia")])
)
HASHABLE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.complex_numbers(allow_nan=False)
    | st.decimals(allow_nan=False)
    | st.fractions()
    | st.uuids()
    | st.dates()
    | st.datetimes(timezones=ZONES)
    | st.times()
    | st.timedeltas(),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=4),
    max_leaves=8,
)
TAGGED = st.recursive(
    HASHABLE | st.floats() | st.builds(bytearray, st.binary()) | st.text(st.characters(codec=None)),
    lambda inner: (
        st.lists(inner)
        | st.builds(tuple, st.lists(inner))
        | st.dictionaries(st.text(), inner)
        | st.dictionaries(HASHABLE, inner, max_size=4)
        | st.dictionaries(st.sampled_from(["$date", "$tuple", "$", "$dict"]), inner)
        | st.sets(HASHABLE, max_size=4)
        | st.builds(collections.deque, st.lists(inner))
        | st.builds(collections.OrderedDict, st.dictionaries(st.text(), inner))
    ),
    max_leaves=12,
)


@given(PLAIN)
def test_plain_values_come_back_as_they_were(value: Any) -> None:
    assert same(value, round_trip(value))


@given(TAGGED)
def test_values_that_need_tags_come_back_as_they_were(value: Any) -> None:
    assert same(value, round_trip(value))


@given(st.datetimes(timezones=ZONES), st.integers(0, 1))
def test_datetimes_keep_zone_fold_and_microseconds(moment: dt.datetime, fold: int) -> None:
    assert same(moment.replace(fold=fold), round_trip(moment.replace(fold=fold)))


@given(st.times(timezones=st.none() | st.just(dt.UTC)), st.integers(0, 1))
def test_times_keep_zone_and_fold(time: dt.time, fold: int) -> None:
    assert same(time.replace(fold=fold), round_trip(time.replace(fold=fold)))


@given(PLAIN)
def test_a_value_that_needs_no_tag_is_not_copied(value: Any) -> None:
    if b'"$' not in codec.encode(value):
        assert tag(value, Walk(10**6), 0) is value


@pytest.mark.parametrize(
    "value",
    [
        2**64,
        -(2**63) - 1,
        10**5000,  # more digits than CPython prints
        -0.0,
        math.inf,
        -math.inf,
        complex(-0.0, math.inf),
        b"",
        bytearray(b"\x00\xff"),
        (),
        (1, (2, [3])),
        set(),
        frozenset({1, "a", None, (1, 2)}),
        range(10, 2**70, 3),
        Decimal("1.10"),
        Decimal("-0"),
        Decimal("1E+30"),
        Decimal("NaN"),
        Fraction(1, 3),
        uuid.UUID(int=5),
        dt.date.min,
        dt.datetime.max.replace(tzinfo=dt.UTC),
        dt.time(1, 2, 3, 4, dt.timezone(dt.timedelta(hours=-3), "BRT")),
        dt.timedelta(-1, 3, 5),
        dt.UTC,
        dt.timezone(dt.timedelta(hours=1, microseconds=1), "odd"),
        zoneinfo.ZoneInfo("Asia/Kathmandu"),
        pathlib.Path("/tmp/a b"),
        pathlib.PurePosixPath("x"),
        pathlib.PureWindowsPath("c:/x"),
        collections.OrderedDict(b=1, a=2),
        collections.Counter("abca"),
        collections.Counter({(1, 2): -3}),
        collections.deque([1, (2,)], maxlen=5),
        collections.defaultdict(list, a=[1]),
        collections.defaultdict(None, {1: 2}),
        http.HTTPStatus.NOT_FOUND,
        msgspec.UNSET,
        "\x00 is a character",
        {"\x00": "in keys too"},
        "\ud800 lone",
        {"\udcff": ["\udcff"]},
        pathlib.Path("/tmp/\udcff"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_type_that_json_lacks_comes_back(value: Any) -> None:
    again = round_trip(value)
    assert same(value, again)
    assert getattr(value, "maxlen", None) == getattr(again, "maxlen", None)
    assert getattr(value, "default_factory", None) == getattr(again, "default_factory", None)


def test_nan_is_stored_and_read_back_as_nan() -> None:
    again = round_trip({"score": math.nan, "ok": 1})
    assert math.isnan(again["score"])
    assert b"NaN" not in codec.encode(math.nan)  # which is not JSON: databases refuse it


def test_dict_keys_keep_their_type_and_order() -> None:
    value = {(1, 2): 3, None: 4, 7: 1, "7": 2, True: 5, 2.5: 6, dt.date(2024, 1, 1): 7, b"k": 8, frozenset({1}): 9}
    again = round_trip(value)
    assert [(type(key), key) for key in again] == [(type(key), key) for key in value]
    assert again == value


def test_a_dict_that_looks_like_a_tag_is_no_tag() -> None:
    for value in ({"$date": "2024-01-01"}, {"$dict": []}, {"$": 1}, {"a": {"$tuple": [1]}}, [{"$x": {"$y": ()}}]):
        assert same(value, round_trip(value))


def test_an_ordered_dict_keeps_the_order_it_was_moved_to() -> None:
    value = collections.OrderedDict(a=1, b=2)
    value.move_to_end("a")
    assert list(round_trip(value)) == ["b", "a"]


def test_a_default_dict_whose_factory_is_code_becomes_a_plain_dict() -> None:
    assert same({"a": 1}, round_trip(collections.defaultdict(lambda: 0, a=1)))


def test_later_changes_do_not_reach_what_was_encoded() -> None:
    value = {"items": [1]}
    data = codec.encode(value)
    value["items"].append(2)
    assert codec.decode(data) == {"items": [1]}


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Moment(dt.datetime):
    pass


class Nanoseconds(dt.datetime):
    """Like a pandas Timestamp: it holds more than its base can."""

    __hash__ = dt.datetime.__hash__

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)


def test_subclasses_of_scalars_become_their_base() -> None:
    value = {Text("key"): [Text("text"), Number(5), Moment(2024, 1, 2, 3, 4, 5, 6, dt.UTC)]}
    expected = {"key": ["text", 5, dt.datetime(2024, 1, 2, 3, 4, 5, 6, dt.UTC)]}
    assert same(expected, round_trip(value))
    assert codec.encode(value) == codec.encode(expected)


def test_a_subclass_that_holds_more_than_its_base_is_refused() -> None:
    with pytest.raises(Exception, match=r"^\$\[0\]: type .*Nanoseconds cannot be stored"):
        codec.encode([Nanoseconds(2024, 1, 1)])


def test_numbers_of_numpy_become_plain() -> None:
    np = pytest.importorskip("numpy")
    value = [np.float64(1.5), np.float32(0.5), np.int64(7), np.bool_(True), np.str_("s"), np.float64("nan")]
    again = round_trip(value)
    assert [type(item) for item in again] == [float, float, int, bool, str, float]
    assert again[:5] == [1.5, 0.5, 7, True, "s"]
    for refused in (np.array([1]), np.timedelta64(5, "s"), np.datetime64("2024-01-01")):
        with pytest.raises(Exception, match=r"^\$\.x: type numpy\.\w+ cannot be stored"):
            codec.encode({"x": refused})


class FixedZone(dt.tzinfo):
    """What pydantic, dateutil and pytz have for an offset that never changes."""

    def utcoffset(self, moment: dt.datetime | None) -> dt.timedelta:
        return dt.timedelta(hours=2)

    def tzname(self, moment: dt.datetime | None) -> str:
        return "X"

    def dst(self, moment: dt.datetime | None) -> None:
        return None


class RuledZone(FixedZone):
    def utcoffset(self, moment: dt.datetime | None) -> dt.timedelta | None:  # type: ignore[override]
        return None if moment is None else dt.timedelta(hours=moment.month)


def test_foreign_zones_of_one_offset_become_timezone_and_others_are_refused() -> None:
    moment = dt.datetime(2024, 1, 1, 12, tzinfo=FixedZone())
    again = round_trip(moment)
    assert again == moment
    assert again.tzinfo == dt.timezone(dt.timedelta(hours=2))
    with pytest.raises(Exception, match=r"^\$\.at: time zone type .*RuledZone cannot be stored\. Use zoneinfo"):
        codec.encode({"at": moment.replace(tzinfo=RuledZone())})


class Color(enum.Enum):
    RED = "r"
    ALIAS = "r"  # noqa: PIE796  # two names of one member


class Shapes:
    class Inner(enum.StrEnum):
        ROUND = "round"

    class Size(enum.IntEnum):
        BIG = 3


class Permission(enum.Flag):
    READ = 1
    WRITE = 2
    ALL = 3


@pytest.mark.parametrize(
    "member",
    [
        Color.RED,
        Color.ALIAS,
        Shapes.Inner.ROUND,
        Shapes.Size.BIG,
        Permission.READ,
        Permission.ALL,
        Permission(0),
        {Shapes.Size.BIG: Shapes.Inner.ROUND},
    ],
    ids=repr,
)
def test_enum_members_come_back_as_themselves(member: Any) -> None:
    again = round_trip(member)
    assert same(member, again)
    if isinstance(member, enum.Enum):
        assert again is member
