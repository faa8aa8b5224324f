"""Stored bytes can be written by someone else: they build plain data and known classes, run nothing, import nothing."""

import contextlib
import dataclasses
import enum
import os
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from outlast.codec import JsonCodec
from outlast.codec.tagging import UNTAGGERS
from outlast.core.errors import DecodingError, StepError

codec = JsonCodec()
ran: list[str] = []

CLASS_TAGS = ["$dataclass", "$attrs", "$pydantic", "$struct", "$enum", "$namedtuple", "$subclass", "$url"]
TARGETS = [
    "os:system",
    "os:_Environ",
    "os:path.join",
    "subprocess:Popen",
    "subprocess:run",
    "builtins:eval",
    "builtins:exec",
    "builtins:object",
    "builtins:type",
    "builtins:dict",
    "builtins:__import__",
    "functools:partial",
    "importlib:import_module",
    "threading:Thread",
    "tempfile:TemporaryDirectory",
    "this:anything",
    "antigravity:x",
    ":",
    "os:",
    ":system",
    "os:system.__call__",
    "builtins:type.__subclasses__",
    f"{__name__}:Trap",
    f"{__name__}:trap",
    f"{__name__}:codec.__class__",
]


class Trap:
    """What a crafted tag would like to have built."""

    def __new__(cls, *args: object, **kwargs: object) -> "Trap":
        ran.append("Trap")
        return super().__new__(cls)

    def __init__(self, *args: object, **kwargs: object) -> None:
        ran.append("Trap")


def trap(*args: object) -> None:
    ran.append("trap")


class Careful(Exception):
    def __new__(cls, *args: object) -> "Careful":
        ran.append("Careful")
        return super().__new__(cls, *args)

    def __init__(self, *args: object) -> None:
        ran.append("Careful")

    def __setattr__(self, name: str, value: object) -> None:
        ran.append("Careful")


@dataclasses.dataclass
class Data:
    x: Any = 1

    def __post_init__(self) -> None:
        ran.append("Data")

    def __setattr__(self, name: str, value: object) -> None:
        ran.append("Data")


class Bits(enum.Flag):
    A = 1

    @classmethod
    def _missing_(cls, value: object) -> Any:
        ran.append("Bits")
        return cls.A


@pytest.mark.parametrize("target", TARGETS)
def test_a_tag_names_no_code(target: str) -> None:
    ran.clear()
    before = set(sys.modules)
    for tag in CLASS_TAGS:
        for body in ({}, [], "id", ["id"], {"args": ["id"]}):
            with pytest.raises(DecodingError):
                codec.decode(msgspec.json.encode({tag: [target, body]}))
    assert ran == []
    assert set(sys.modules) == before


@pytest.mark.parametrize("target", TARGETS)
def test_an_error_names_no_code(target: str) -> None:
    ran.clear()
    before = set(sys.modules)
    again = codec.decode_error(msgspec.json.encode({"$exception": [target, {"text": "t", "args": ["id"]}]}))
    assert isinstance(again, StepError)
    assert again.type_name == target
    assert ran == []
    assert set(sys.modules) == before


@pytest.mark.parametrize(
    "data",
    [
        b'{"$obj":"os:system"}',
        b'{"$object":["os:system",["id"]]}',
        b'{"$pickle":"gASVIQAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjAJpZJSFlFKULg=="}',
        b'{"$call":["os:system","id"]}',
        b'{"$":1}',
        b'{"$defaultdict":["system",{}]}',
        b'{"$defaultdict":[["os:system"],{}]}',
        b'{"$purepath":["Path","x"]}',
        b'{"$zone":"../../etc/passwd"}',
        b'{"$zone":"/etc/localtime"}',
        b'{"$zone":"os.path/x"}',
        b'{"$datetime":["2024-01-01T00:00:00","..",0]}',
        b'{"$url":["Url",1]}',
        b'{"$url":["eval","x"]}',
        b'{"$set":[[1]]}',
        b'{"$dict":[[[1],2]]}',
        b'{"$dict":[1]}',
        b'{"$fraction":[1,0]}',
        b'{"$int":"1g9"}',
        b'{"$counter":[1]}',
        b'{"$enum":["enum:Flag","__class__"]}',
    ],
)
def test_crafted_tags_are_refused(data: bytes) -> None:
    with pytest.raises(DecodingError):
        codec.decode(data)
    assert isinstance(codec.decode_error(data), StepError)


@pytest.mark.parametrize("tag", sorted(UNTAGGERS))
def test_any_payload_gives_a_value_or_a_decoding_error(tag: str) -> None:
    ran.clear()
    for payload in (None, 1, "x", [], {}, [[]], [1, 2, 3, 4], ["a", "b"], {"a": {"$tuple": 1}}, "Url", ["Url", "x"]):
        with contextlib.suppress(DecodingError):
            codec.decode(msgspec.json.encode({tag: payload}))
    assert ran == []


def test_known_classes_are_rebuilt_without_running_their_code() -> None:
    ran.clear()
    data = codec.decode(msgspec.json.encode({"$dataclass": [f"{__name__}:Data", {"x": 1, "__class__": "Trap"}]}))
    assert type(data) is Data
    error = codec.decode_error(
        msgspec.json.encode(
            {"$exception": [f"{__name__}:Careful", {"text": "t", "args": ["t"], "state": {"a": 1}, "notes": ["n"]}]}
        )
    )
    assert type(error) is Careful
    codec.decode(msgspec.json.encode({"$enum": [f"{__name__}:Bits", 1]}))
    with pytest.raises(DecodingError):
        codec.decode(msgspec.json.encode({"$enum": [f"{__name__}:Bits", 8]}))
    assert ran == []


def test_decoding_imports_opens_and_starts_nothing() -> None:
    """An audit hook sees every import, open and exec; it cannot be removed, hence the process of its own."""
    program = """
import sys
from outlast.codec import JsonCodec
codec = JsonCodec()
seen = []
sys.addaudithook(lambda event, args: seen.append(event) if event in watched else None)
watched = {"import", "open", "exec", "compile", "os.system", "subprocess.Popen", "pickle.find_class", "code.__new__"}
for tag in ("$dataclass", "$attrs", "$pydantic", "$struct", "$enum", "$namedtuple", "$subclass", "$exception"):
    for name in ("os:system", "subprocess:Popen", "builtins:eval", "antigravity:x", "this:x"):
        codec.decode_error(('{"%s":["%s",{"text":"t","args":["id"]}]}' % (tag, name)).encode())
assert seen == [], seen
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


def test_libraries_that_the_user_may_lack_are_not_imported() -> None:
    program = (
        "import sys, outlast.codec as codec; c = codec.JsonCodec(); c.decode(c.encode({1, 2})); print(*sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True)
    loaded = set(done.stdout.split())
    assert "outlast.codec.json_codec" in loaded
    assert not {"pydantic", "attr", "numpy"} & loaded, "these are looked at only where the user has imported them"
