"""Tags of single values: text and numbers that JSON lacks, bytes, dates and times, decimals, UUIDs, paths."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import numbers
import re
import sys
import uuid
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import msgspec

from outlast.codec.refusal import Refused, type_name, unsupported
from outlast.codec.tagging import (
    FALLBACKS,
    INT_MAX,
    INT_MIN,
    Tagger,
    Walk,
    is_clean_text,
    tag,
    tagger,
    untag,
    untagger,
)
from outlast.core.errors import DecodingError

# -- text and bytes ----------------------------------------------------------


@tagger(type(None), bool)
def _tag_itself(value: object, walk: Walk, depth: int) -> object:
    return value


@tagger(str)
def _tag_str(value: str, walk: Walk, depth: int) -> object:
    """Tag a string only when it holds lone surrogates (file names from `os.listdir`), which UTF-8 cannot hold."""
    if not walk.check_text or is_clean_text(value):
        return value
    return {"$str": base64.b64encode(value.encode("utf-8", "surrogatepass")).decode()}


@untagger("$str")
def _untag_str(payload: str, hint: object) -> str:
    return _from_base64(payload).decode("utf-8", "surrogatepass")


@tagger(bytes)
def _tag_bytes(value: bytes, walk: Walk, depth: int) -> object:
    walk.enter(depth, len(value) // 2)
    return {"$bytes": base64.b64encode(value).decode()}


@untagger("$bytes")
def _untag_bytes(payload: str, hint: object) -> bytes:
    return _from_base64(payload)


@tagger(bytearray)
def _tag_bytearray(value: bytearray, walk: Walk, depth: int) -> object:
    walk.enter(depth, len(value) // 2)
    return {"$bytearray": base64.b64encode(value).decode()}


@untagger("$bytearray")
def _untag_bytearray(payload: str, hint: object) -> bytearray:
    return bytearray(_from_base64(payload))


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise DecodingError(f"damaged base64 text: {error}") from None


# -- numbers -----------------------------------------------------------------


@tagger(int)
def _tag_int(value: int, walk: Walk, depth: int) -> object:
    # hexadecimal: CPython refuses decimal text of more than 4300 digits
    return value if INT_MIN <= value <= INT_MAX else {"$int": hex(value)}


@untagger("$int")
def _untag_int(payload: str, hint: object) -> int:
    return int(payload, 16)


@tagger(float)
def _tag_float(value: float, walk: Walk, depth: int) -> object:
    return value if value - value == 0.0 else {"$float": repr(value)}


@untagger("$float")
def _untag_float(payload: str, hint: object) -> float:
    return float(payload)


@tagger(complex)
def _tag_complex(value: complex, walk: Walk, depth: int) -> object:
    return {"$complex": [_tag_float(value.real, walk, depth), _tag_float(value.imag, walk, depth)]}


@untagger("$complex")
def _untag_complex(payload: list[Any], hint: object) -> complex:
    real, imag = untag(payload, hint)
    return complex(real, imag)


@tagger(Decimal)
def _tag_decimal(value: Decimal, walk: Walk, depth: int) -> object:
    return {"$decimal": str(value)}


@untagger("$decimal")
def _untag_decimal(payload: str, hint: object) -> Decimal:
    return Decimal(payload)


@tagger(Fraction)
def _tag_fraction(value: Fraction, walk: Walk, depth: int) -> object:
    return {"$fraction": [_tag_int(value.numerator, walk, depth), _tag_int(value.denominator, walk, depth)]}


@untagger("$fraction")
def _untag_fraction(payload: list[Any], hint: object) -> Fraction:
    numerator, denominator = untag(payload, hint)
    return Fraction(numerator, denominator)


# -- dates and times ---------------------------------------------------------

# A key is joined to a path, and to the name of a package of `tzdata`: no dots, so that it leaves neither.
_ZONE_KEY: Final = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*")


@tagger(dt.timezone)
def tag_zone(value: dt.tzinfo, walk: Walk, depth: int) -> object:
    return {"$zone": _zone(value)}


@untagger("$zone")
def _untag_zone(payload: object, hint: object) -> dt.tzinfo:
    return _read_zone(payload)


def _zone(zone: dt.tzinfo) -> object:
    """Return a zone's stored form: its key, or `[offset in microseconds, name or None]` when it has one offset."""
    zoneinfo = sys.modules.get("zoneinfo")  # not imported: then it is none of its
    if zoneinfo is not None and isinstance(zone, zoneinfo.ZoneInfo):
        key: str | None = zone.key  # None when it was read from a file
        if key is None or _ZONE_KEY.fullmatch(key) is None:
            raise Refused("a ZoneInfo without a key cannot be found again. Make it with ZoneInfo(key).")
        return key
    if type(zone) is dt.timezone:
        arguments: Any = zone
        offset, *name = arguments.__getinitargs__()  # the only way to tell a name that was given from one made up
        return [offset // dt.timedelta(microseconds=1), name[0] if name else None]
    fixed = zone.utcoffset(None)
    if fixed is None:
        raise Refused(f"time zone type {type_name(type(zone))} cannot be stored. Use zoneinfo.ZoneInfo.")
    # pydantic, dateutil and pytz have classes of their own for an offset that never changes
    return [fixed // dt.timedelta(microseconds=1), None]


def _read_zone(stored: Any) -> dt.tzinfo:
    if isinstance(stored, str):
        if _ZONE_KEY.fullmatch(stored) is None:
            raise DecodingError(f"{stored!r} is not the key of a time zone")
        import zoneinfo  # noqa: PLC0415 - seldom needed, and slow to import

        try:
            return zoneinfo.ZoneInfo(stored)
        except zoneinfo.ZoneInfoNotFoundError:
            raise DecodingError(f"time zone {stored!r} is not known here: install the package tzdata") from None
    offset, name = stored
    delta = dt.timedelta(microseconds=offset)
    return dt.timezone(delta) if name is None else dt.timezone(delta, name)


def _clock_time(value: dt.datetime | dt.time) -> object:
    """Return ISO text where that says it all, else `[text without zone, zone, fold]`."""
    if not value.fold and (value.tzinfo is None or value.tzinfo is dt.UTC):
        return value.isoformat()
    zone = None if value.tzinfo is None else _zone(value.tzinfo)
    if not value.fold and isinstance(zone, list) and zone[1] is None:
        return value.replace(tzinfo=dt.timezone(dt.timedelta(microseconds=zone[0]))).isoformat()
    return [value.replace(tzinfo=None, fold=0).isoformat(), zone, value.fold]


@tagger(dt.datetime)
def _tag_datetime(value: dt.datetime, walk: Walk, depth: int) -> object:
    return {"$datetime": _clock_time(value)}


@untagger("$datetime")
def _untag_datetime(payload: Any, hint: object) -> dt.datetime:
    if isinstance(payload, str):
        return dt.datetime.fromisoformat(payload)
    text, zone, fold = payload
    tzinfo = None if zone is None else _read_zone(zone)
    return dt.datetime.fromisoformat(text).replace(tzinfo=tzinfo, fold=fold)


@tagger(dt.time)
def _tag_time(value: dt.time, walk: Walk, depth: int) -> object:
    return {"$time": _clock_time(value)}


@untagger("$time")
def _untag_time(payload: Any, hint: object) -> dt.time:
    if isinstance(payload, str):
        return dt.time.fromisoformat(payload)
    text, zone, fold = payload
    tzinfo = None if zone is None else _read_zone(zone)
    return dt.time.fromisoformat(text).replace(tzinfo=tzinfo, fold=fold)


@tagger(dt.date)
def _tag_date(value: dt.date, walk: Walk, depth: int) -> object:
    return {"$date": value.isoformat()}


@untagger("$date")
def _untag_date(payload: str, hint: object) -> dt.date:
    return dt.date.fromisoformat(payload)


@tagger(dt.timedelta)
def _tag_timedelta(value: dt.timedelta, walk: Walk, depth: int) -> object:
    return {"$timedelta": [value.days, value.seconds, value.microseconds]}


@untagger("$timedelta")
def _untag_timedelta(payload: list[int], hint: object) -> dt.timedelta:
    days, seconds, microseconds = payload
    return dt.timedelta(days, seconds, microseconds)


# -- names of things ---------------------------------------------------------


@tagger(uuid.UUID)
def _tag_uuid(value: uuid.UUID, walk: Walk, depth: int) -> object:
    return {"$uuid": str(value)}


@untagger("$uuid")
def _untag_uuid(payload: str, hint: object) -> uuid.UUID:
    return uuid.UUID(payload)


@tagger(type(msgspec.UNSET))
def _tag_unset(value: object, walk: Walk, depth: int) -> object:
    return {"$unset": None}


@untagger("$unset")
def _untag_unset(payload: None, hint: object) -> object:
    return msgspec.UNSET


# -- subclasses and foreign numbers -------------------------------------------

# A subclass of one of these becomes its base, live as on replay. Each function returns an exact instance of the base.
PLAIN: Final[dict[type, Callable[[Any], object]]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    complex: lambda value: complex(value.real, value.imag),
    bytes: lambda value: bytes(memoryview(value)),
    bytearray: lambda value: bytearray(memoryview(value)),
    dt.datetime: lambda v: dt.datetime(
        v.year, v.month, v.day, v.hour, v.minute, v.second, v.microsecond, v.tzinfo, fold=v.fold
    ),
    dt.time: lambda v: dt.time(v.hour, v.minute, v.second, v.microsecond, v.tzinfo, fold=v.fold),
    dt.date: lambda value: dt.date(value.year, value.month, value.day),
    dt.timedelta: lambda value: dt.timedelta(value.days, value.seconds, value.microseconds),
    Decimal: Decimal,
    Fraction: lambda value: Fraction(value.numerator, value.denominator),
    uuid.UUID: lambda value: uuid.UUID(int=value.int),
}
UNCOMPARED: Final[set[type]] = {str}  # it needs no check; `zones` adds one that has no equality


def _plain_tagger(cls: type) -> Tagger | None:
    """Return the tagger of a subclass of a scalar, or of a number of another library (numpy, gmpy2)."""
    if "zoneinfo" in sys.modules:
        import outlast.codec.zones  # noqa: F401, PLC0415 - it adds to `PLAIN`
    for base, convert in PLAIN.items():
        if issubclass(cls, base):
            return _converting(base, convert)
    if issubclass(cls, numbers.Integral) and cls.__name__ != "timedelta64":  # numpy's duration says it is a number
        return _converting(int, int)
    if issubclass(cls, numbers.Real) and not issubclass(cls, numbers.Rational):
        return _converting(float, float)
    if issubclass(cls, numbers.Complex) and not issubclass(cls, numbers.Real):
        return _converting(complex, complex)
    if cls.__module__ == "numpy" and cls.__name__ in {"bool", "bool_"}:
        return _converting(bool, bool)
    return None


def _converting(base: type, convert: Callable[[Any], object]) -> Tagger:
    def tag_plain(value: Any, walk: Walk, depth: int) -> object:
        try:
            plain = convert(value)
            same = type(plain) is base and (base in UNCOMPARED or plain == value or value != value)
        except Exception:  # noqa: BLE001  # code of another library; whatever it raises, there is no plain value
            plain, same = None, False
        if not same:  # pandas.NaT, a Timestamp with nanoseconds, a long double: the base cannot hold it
            raise unsupported(value)
        return tag(plain, walk, depth)

    return tag_plain


FALLBACKS.append(_plain_tagger)
