"""Plain JSON that is made into what an annotation says is stored as if code had made it."""

from __future__ import annotations

import dataclasses
from typing import Any

import attrs
import msgspec
import pydantic
import pytest

from outlast.codec import JsonCodec
from outlast.codec.conversion import from_json

codec = JsonCodec()


@dataclasses.dataclass
class Plain:
    id: str
    currency: str = "EUR"
    tags: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Frozen:
    id: str
    currency: str = "EUR"


@dataclasses.dataclass
class Derived(Plain):
    rate: float = 1.5


@dataclasses.dataclass(slots=True)
class Slotted:
    id: str
    currency: str = "EUR"


@dataclasses.dataclass
class Unset:
    id: str
    counter: int = dataclasses.field(default=7, init=False)


@attrs.define(slots=False)
class Attrs:
    id: str
    currency: str = "EUR"


@attrs.define
class SlottedAttrs:
    id: str
    currency: str = "EUR"


class Struct(msgspec.Struct):
    id: str
    currency: str = "EUR"


class Model(pydantic.BaseModel):
    id: str
    currency: str = "EUR"


@dataclasses.dataclass
class Holder:
    one: Plain
    many: list[Frozen]
    named: dict[str, Plain]


@pytest.mark.parametrize("cls", [Plain, Frozen, Derived, Slotted, Unset, Attrs, SlottedAttrs, Struct, Model])
def test_a_field_left_at_its_default_is_stored(cls: Any) -> None:
    assert codec.encode(from_json({"id": "a"}, cls)) == codec.encode(cls(id="a"))


@pytest.mark.parametrize("wrapped", [list[Plain], dict[str, Plain], tuple[Plain, ...], Plain | None, Holder])
def test_so_it_is_within_other_values(wrapped: Any) -> None:
    one = {"id": "a"}
    given, made = {
        list[Plain]: ([one], [Plain("a")]),
        dict[str, Plain]: ({"k": one}, {"k": Plain("a")}),
        tuple[Plain, ...]: ([one], (Plain("a"),)),
        Plain | None: (one, Plain("a")),
        Holder: (
            {"one": one, "many": [one], "named": {"k": one}},
            Holder(Plain("a"), [Frozen("a")], {"k": Plain("a")}),
        ),
    }[wrapped]
    assert codec.encode(from_json(given, wrapped)) == codec.encode(made)


@dataclasses.dataclass
class Options:
    currency: str = "EUR"


def test_so_it_is_where_nothing_is_given_at_all() -> None:
    assert codec.encode(from_json({}, Options)) == codec.encode(Options())


def test_what_is_given_is_kept() -> None:
    assert from_json({"id": "a", "currency": "USD"}, Plain) == Plain("a", "USD")
