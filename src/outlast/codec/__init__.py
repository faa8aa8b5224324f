"""How values and errors become bytes in a store, and come back as what they were.

`JsonCodec` is the default; `WrappedCodec` puts encryption or compression around it; `Codec` is what both are.

The stored form is JSON in UTF-8. `None`, `bool`, `str`, `list`, finite `float`, `int` of 64 bits and `dict` with `str`
keys stand for themselves. Everything else is an object with one key, its tag. Values outlive the code that stored them,
so a tag's meaning never changes (`tests/unit/test_codec_format.py`); a new meaning gets a new tag.

| tag | holds |
|---|---|
| `$str` | base64 of a string with lone surrogates |
| `$int` | hexadecimal text |
| `$float` | `nan`, `inf`, `-inf` |
| `$complex`, `$fraction` | two numbers |
| `$decimal`, `$uuid`, `$path` | text |
| `$bytes`, `$bytearray` | base64 |
| `$datetime`, `$time` | ISO text, or `[text without zone, zone, fold]` |
| `$date` | ISO text |
| `$timedelta` | `[days, seconds, microseconds]` |
| `$zone` | key of a `ZoneInfo`, or `[microseconds, name]` of a `timezone`; also the zone above |
| `$purepath` | `[class name, text]` |
| `$tuple`, `$set`, `$frozenset` | items; those of sets in the order of their bytes |
| `$deque` | `[items, maxlen]` |
| `$range` | `[start, stop, step]` |
| `$dict` | `[[key, value], ...]`, for keys that are no `str` or start with `$` |
| `$ordereddict`, `$counter` | a dict |
| `$defaultdict` | `[name of a builtin factory, dict]` |
| `$dataclass`, `$attrs`, `$struct` | `[class, state]` |
| `$namedtuple` | `[class, fields]`, and a third part for other attributes |
| `$pydantic` | `[class, fields]`, and a third part with `set`, `extra` and `private` |
| `$subclass` | `[class, builtin container]`, and a third part for attributes |
| `$enum` | `[class, name]`, or the number of combined flags |
| `$url` | `[class, text]`, a URL of pydantic |
| `$unset` | `msgspec.UNSET` |
| `$exception` | `[class, parts]`, see `exceptions.py` |
"""

from outlast.codec.json_codec import JsonCodec
from outlast.codec.protocol import Codec
from outlast.codec.wrapped_codec import WrappedCodec

__all__ = ["Codec", "JsonCodec", "WrappedCodec"]
