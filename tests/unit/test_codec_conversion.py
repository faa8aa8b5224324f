"""Plain JSON that is made into what an annotation says is stored as if code had made it."""

from __future__ import annotations

import dataclasses
from typing import Any

import attrs
import msgspec
import pydantic
import pytest

from outlast.codec import JsonCodec
from outlast.codec.conversion import form_from_json, from_json
from outlast.core.errors import DecodingError

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


@dataclasses.dataclass
class Order:
    lines: list[Plain]
    by_name: dict[str, Plain] = dataclasses.field(default_factory=dict)


@attrs.define
class Defined:
    id: str


class Renamed(msgspec.Struct, rename="camel"):
    card_no: str


class Model(pydantic.BaseModel):
    card: str = pydantic.Field("", validation_alias=pydantic.AliasChoices("card", pydantic.AliasPath("c", 0)))
    owner: Plain | None = None


class Ignoring(pydantic.BaseModel, extra="ignore"):
    card: str


class Allowing(pydantic.BaseModel, extra="allow"):
    card: str


class Forbidding(pydantic.BaseModel, extra="forbid"):
    card: str


@pytest.mark.parametrize(
    ("form", "given", "named"),
    [
        (Plain, {"id": "a", "idd": "b"}, "Plain has no field 'idd'"),
        (Order, {"lines": [{"id": "a"}, {"id": "b", "tag": 1}]}, r"Order has no field 'lines\[1\].tag'"),
        (Order, {"lines": [], "by_name": {"x": {"id": "a", "y": 1}}}, "Order has no field 'by_name.x.y'"),
        (Defined, {"id": "a", "no": 1}, "Defined has no field 'no'"),
        (Renamed, {"cardNo": "1", "card_no": "1"}, "Renamed has no field 'card_no'"),
        (Model, {"cards": "1", "owner": {"id": "a", "x": 1}}, "Model has no field 'cards', 'owner.x'"),
        (Forbidding, {"card": "1", "x": 1}, "Extra inputs are not permitted"),
    ],
)
def test_a_form_names_the_fields_that_it_does_not_have(form: type, given: dict[str, Any], named: str) -> None:
    with pytest.raises(DecodingError, match=named):
        form_from_json(given, form)


@pytest.mark.parametrize(
    ("form", "given"),
    [
        (Order, {"lines": [{"id": "a"}]}),
        (Renamed, {"cardNo": "1"}),
        (Model, {"c": ["1"]}),
        (Ignoring, {"card": "1", "x": 1}),
        (Allowing, {"card": "1", "x": 1}),
        (dict, {"any": 1}),
    ],
)
def test_a_form_takes_the_fields_that_it_has_and_what_pydantic_is_told_to_take(
    form: type, given: dict[str, Any]
) -> None:
    assert isinstance(form_from_json(given, form), form)
