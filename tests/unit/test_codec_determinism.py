"""The same value gives the same bytes in every process: digests of arguments are taken over them."""

import os
import subprocess
import sys

import pytest

from outlast.codec import JsonCodec

PROGRAM = """
import collections, dataclasses, enum, hashlib, sys
import attrs, msgspec, pydantic
from datetime import datetime, UTC
from outlast.codec import JsonCodec

class Tone(enum.Enum):
    LOW = 1

@dataclasses.dataclass(frozen=True)
class Point:
    names: frozenset
    tones: set

@attrs.frozen(cache_hash=True)
class Key:
    text: str

class Model(pydantic.BaseModel, extra="allow"):
    a: set[str]
    b: int = 1
    _private: set = pydantic.PrivateAttr(default_factory=lambda: set(WORDS))

class Wire(msgspec.Struct):
    words: frozenset

WORDS = ["pear", "apple", "fig", "plum", "kiwi", "date", "lime", "nut", "", "$x"]
key = Key("k")
hash(key)
class QuietError(Exception):
    def __str__(self):
        return "quiet"  # the text of a ValueError would hold the set in the order of its process

error = QuietError("bad", set(WORDS), {1: frozenset(WORDS)})
error.held = set(WORDS)
error.opaque = object()
value = {
    "set": set(WORDS) | {1, 2.5, None, (1, "a"), frozenset(WORDS), Tone.LOW, datetime(2024, 1, 1, tzinfo=UTC), b"x"},
    "point": Point(frozenset(WORDS), {Tone.LOW, Point(frozenset({"q", "r"}), ()) and "s"}),
    "key": {key, Key("l")},
    "model": Model(a=set(WORDS), x=set(WORDS), y=1),
    "wire": Wire(frozenset(WORDS)),
    "counter": collections.Counter(sorted(WORDS)),
    "error": error,
}
codec = JsonCodec()
data = codec.encode(value)
assert codec.encode(codec.decode(data)) == data
print(hashlib.sha256(data + codec.encode_error(error)).hexdigest())
"""


def digest_under(hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


def test_bytes_do_not_depend_on_the_hash_seed() -> None:
    assert len({digest_under(seed) for seed in ("0", "1", "2", "12345")}) == 1


@pytest.mark.parametrize("value", [{1, "1", 1.5}, {"b": 1, "a": 2}, {"x": {("a",), ("b",)}}])
def test_encoding_twice_gives_the_same_bytes(value: object) -> None:
    assert JsonCodec().encode(value) == JsonCodec().encode(value)
