"""Instances come back as the class they had, from their state alone; and how a class is found again."""

import collections
import dataclasses
import datetime as dt
import enum
import functools
import logging
import os
import subprocess
import sys
import types
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, NamedTuple, Optional, TypeVar

import attrs
import msgspec
import pydantic
import pytest

from outlast.codec import JsonCodec
from outlast.core.errors import DecodingError, EncodingError

codec = JsonCodec()
T = TypeVar("T")
ran: list[str] = []


def round_trip(value: Any) -> Any:
    """Decode what was encoded, and fail if any code of the classes ran on the way back."""
    data = codec.encode(value)
    ran.clear()
    again = codec.decode(data)
    assert ran == []
    assert type(again) is type(value)
    assert codec.encode(again) == data
    return again


@dataclasses.dataclass
class Plan:
    card: str
    cents: int
    at: dt.datetime | None = None
    tags: tuple[str, ...] = ()
    total: int = dataclasses.field(init=False, default=0)
    kind: ClassVar[str] = "plan"

    def __post_init__(self) -> None:
        ran.append("Plan")
        self.total = self.cents * 2
        self.extra = ("not", "a field")

    @functools.cached_property
    def slow(self) -> int:
        return self.cents


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    x: Any
    y: Any


@dataclasses.dataclass
class Crate(Generic[T]):
    content: T


@dataclasses.dataclass
class Guarded:
    value: int

    def __setattr__(self, name: str, value: object) -> None:
        ran.append("Guarded")
        object.__setattr__(self, name, value)


class PlainChild(Plan):
    """No dataclass of its own, but an instance of one."""


@attrs.define
class Order:
    name: str
    lines: list[Any] = attrs.field(factory=list, validator=attrs.validators.instance_of(list))

    def __attrs_post_init__(self) -> None:
        ran.append("Order")


@attrs.frozen(cache_hash=True)
class Key:
    text: str


class Model(pydantic.BaseModel, frozen=True):
    when: dt.datetime
    day: dt.date
    clock: dt.time
    span: dt.timedelta
    price: Decimal
    id: uuid.UUID
    link: pydantic.HttpUrl | None = None
    parts: list["Part"] = []
    _secret: int = pydantic.PrivateAttr(3)

    @pydantic.field_validator("price")
    @classmethod
    def check(cls, value: Decimal) -> Decimal:
        ran.append("Model")
        return value


class Part(pydantic.BaseModel):
    class Mode(enum.Enum):
        FAST = 1

    mode: Mode
    pair: tuple[int, int] = (1, 2)


class Open(pydantic.BaseModel, extra="allow"):
    a: int

    @functools.cached_property
    def slow(self) -> int:
        return 1


class Box(pydantic.BaseModel, Generic[T]):
    content: T


class Wire(msgspec.Struct, frozen=True, kw_only=True):
    a: int
    b: list[int] = []


class Parent(msgspec.Struct, dict=True):
    a: int


class Checked(Parent):
    b: int | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        ran.append("Checked")


class Pair(NamedTuple):
    left: int
    right: Any = "r"


class Wider(Pair):
    pass


class Bag(dict[Any, Any]):
    def __init__(self, required: int) -> None:
        ran.append("Bag")
        super().__init__(required=required)

    def __setitem__(self, key: Any, value: Any) -> None:
        ran.append("Bag")
        super().__setitem__(key, value)


class Row(list[Any]):
    label = "none"


class Names(frozenset[str]):
    pass


class Recent(collections.deque[int]):
    pass


class Sorted(collections.OrderedDict[str, int]):
    pass


def bag() -> Bag:
    made = Bag(5)
    made[(1, 2)] = {"deep": (1,)}
    return made


def row() -> Row:
    made = Row([1, (2,)])
    made.label = "mine"
    return made


def model() -> Model:
    return Model(
        when=dt.datetime(2024, 1, 2, 3, 4, 5, 6, dt.timezone(dt.timedelta(hours=2))),
        day=dt.date(2024, 1, 2),
        clock=dt.time(1, 2, 3, 4),
        span=dt.timedelta(seconds=1, microseconds=1),
        price=Decimal("1.10"),
        id=uuid.UUID(int=7),
        link="https://example.org/a?b=c",  # type: ignore[arg-type]
        parts=[Part(mode=Part.Mode.FAST)],
    )


VALUES = [
    Plan("tok", 5, dt.datetime(2024, 1, 1, tzinfo=dt.UTC), ("a",)),
    PlainChild("tok", 5),
    Point(x=1, y=2),
    {Point(x=1, y=(2,)): Point(x=None, y={1})},
    Guarded(3),
    Order("o", [Key("k"), (1,)]),
    Key("k"),
    model(),
    Part(mode=Part.Mode.FAST),
    Open(a=1, b=(1, 2)),  # type: ignore[call-arg]
    Box[int](content=3),
    Wire(a=1, b=[2]),
    Checked(1, 2),
    Checked(1),
    Parent(4),
    Pair(1),
    Wider(1, (2,)),
    bag(),
    row(),
    Names({"b", "a"}),
    Recent([1, 2], 3),
    Sorted(b=1, a=2),
    pydantic.AnyUrl("https://example.org"),
    pydantic.PostgresDsn("postgresql://u:p@host/db"),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_an_instance_comes_back_as_its_class_without_running_its_code(value: Any) -> None:
    again = round_trip(value)
    assert again == value
    assert len(repr(again)) == len(repr(value))  # the order of a set is not part of its value
    assert getattr(again, "__dict__", None) == getattr(value, "__dict__", None)


def test_the_arguments_of_a_generic_class_are_not_part_of_its_instance() -> None:
    assert codec.encode(Crate[int](1)) == codec.encode(Crate(1))
    assert round_trip(Crate[int](1)) == Crate(1)


def test_types_inside_a_model_are_what_they_were() -> None:
    again = round_trip(model())
    for name, value in model():
        assert type(getattr(again, name)) is type(value)
    assert str(again.price) == "1.10"
    assert again.when.utcoffset() == dt.timedelta(hours=2)
    assert again.when.microsecond == 6
    assert again.parts[0].mode is Part.Mode.FAST
    assert again._secret == 3


def test_a_model_keeps_which_fields_were_set_and_its_extras() -> None:
    assert round_trip(Part(mode=Part.Mode.FAST)).model_fields_set == {"mode"}
    again = round_trip(Open.model_construct(a="no int", b=(1,)))  # type: ignore[arg-type]
    assert again.a == "no int"
    assert again.model_extra == {"b": (1,)}


def test_a_datetime_that_pydantic_read_keeps_its_offset() -> None:
    read = Model.model_validate_json(model().model_dump_json())
    again = round_trip(read)
    assert again == read
    assert again.when.isoformat() == "2024-01-02T03:04:05.000006+02:00"


def test_what_is_filled_by_being_read_changes_no_bytes() -> None:
    plan, opened = Plan("tok", 5), Open(a=1)
    before = codec.encode([plan, opened])
    assert plan.slow + opened.slow == 6
    assert codec.encode([plan, opened]) == before
    key = Key("k")
    before = codec.encode(key)
    assert hash(key) == hash(round_trip(key))
    assert codec.encode(key) == before


def test_the_order_in_which_attributes_were_set_changes_no_bytes() -> None:
    one, two = Plan("tok", 5), Plan("tok", 5)
    one.b, one.a = 1, 2  # type: ignore[attr-defined]
    two.a, two.b = 2, 1  # type: ignore[attr-defined]
    assert codec.encode(one) == codec.encode(two)


# -- classes that changed since ------------------------------------------------


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


# -- how a class is found -------------------------------------------------------


def moved(value: object, module: str = "old.place") -> bytes:
    """Return the bytes as if the class had lived in another module when they were stored."""
    return codec.encode(value).replace(f"{type(value).__module__}:".encode(), f"{module}:".encode())


@dataclasses.dataclass
class Holder:
    inner: "dict[str, list[Wire | None]]"


@pytest.mark.parametrize(
    "annotation",
    [
        Wire,
        Wire | None,
        Optional[Wire],  # noqa: UP045  # another class of typing's than `Wire | None`
        list[Wire],
        dict[str, tuple[Wire, ...]],
        Annotated[Wire, "note"],
        Holder,
        list[Holder],
        collections.abc.Callable[[int], Wire],
    ],
    ids=str,
)
def test_a_class_that_moved_is_found_in_the_annotation(annotation: object) -> None:
    assert codec.decode(moved(Wire(a=1)), annotation) == Wire(a=1)
    nested = codec.decode(moved(Wire(a=1)).join([b'{"deep":[', b"]}"]), annotation)
    assert nested == {"deep": [Wire(a=1)]}


def test_a_class_that_is_not_found_is_an_error_that_names_it() -> None:
    with pytest.raises(DecodingError, match=r"old\.place:Wire .*not imported.*Import old\.place in this process"):
        codec.decode(moved(Wire(a=1)))
    with pytest.raises(DecodingError, match=r"old\.place:Wire"):
        codec.decode(moved(Wire(a=1)), Plan | int)
    with pytest.raises(DecodingError, match="collections has no such struct: was it moved or renamed"):
        codec.decode(moved(Wire(a=1), "collections"))


def test_two_classes_of_one_name_in_the_annotation_decide_nothing() -> None:
    twin = msgspec.defstruct("Wire", ["a"], module="elsewhere")
    with pytest.raises(DecodingError):
        codec.decode(moved(Wire(a=1)), Wire | twin)


def test_a_class_of_another_kind_is_refused() -> None:
    data = codec.encode(Grown(1)).replace(b"Grown", b"GrownModel")
    with pytest.raises(DecodingError, match=r"GrownModel was stored as dataclass"):
        codec.decode(data)


def test_a_class_that_cannot_be_found_by_its_name_is_refused() -> None:
    hidden = dataclasses.make_dataclass("Hidden", ["x"])
    with pytest.raises(EncodingError, match=r"^\$: type .*Hidden cannot be stored: .* does not name it"):
        codec.encode(hidden(1))


def test_looking_a_class_up_imports_nothing_and_wakes_no_module(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lazy(types.ModuleType):
        def __getattr__(self, name: str) -> Any:
            ran.append(name)
            return Wire

    monkeypatch.setitem(sys.modules, "old.place", Lazy("old.place"))
    ran.clear()
    with pytest.raises(DecodingError):
        codec.decode(moved(Wire(a=1)))
    assert ran == []
    before = set(sys.modules)
    with pytest.raises(DecodingError):
        codec.decode(moved(Wire(a=1), "this"))  # importing it prints a poem
    assert set(sys.modules) == before


PROGRAM = """
import dataclasses, sys
from outlast.codec import JsonCodec

@dataclasses.dataclass
class Job:
    name: str

if __name__ == "__main__":
    if sys.argv[1:] == ["write"]:
        sys.stdout.buffer.write(JsonCodec().encode(Job("x")))
    else:
        value = JsonCodec().decode(sys.stdin.buffer.read())
        assert type(value) is Job, value
"""


def python(*arguments: str, cwd: Path, stdin: bytes = b"") -> bytes:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, input=stdin, check=True, stdout=subprocess.PIPE).stdout


def test_a_program_and_a_worker_that_imports_it_know_each_others_classes(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(PROGRAM)
    worker = "import sys, agent; from outlast.codec import JsonCodec; codec = JsonCodec()\n"
    as_program = python("agent.py", "write", cwd=tmp_path)
    as_module = python("-m", "agent", "write", cwd=tmp_path)
    as_import = python("-c", worker + "sys.stdout.buffer.write(codec.encode(agent.Job('x')))", cwd=tmp_path)
    assert as_program == as_module == as_import
    python("agent.py", cwd=tmp_path, stdin=as_import)
    read = "assert type(codec.decode(sys.stdin.buffer.read())) is agent.Job"
    python("-c", worker + read, cwd=tmp_path, stdin=as_program)


def test_a_program_without_a_name_that_can_be_imported_finds_its_own_classes(tmp_path: Path) -> None:
    (tmp_path / "my-agent.py").write_text(PROGRAM)
    data = python("my-agent.py", "write", cwd=tmp_path)
    assert b"__main__:Job" in data
    python("my-agent.py", cwd=tmp_path, stdin=data)
