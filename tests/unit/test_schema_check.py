"""What a form's schema says for certain of what was filled in, where its class is not at hand."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, Literal

import pydantic
import pytest

from outlast.codec.forms import SchemaForm, blank, check_form, fields_told, filled_in, schema_of
from outlast.codec.schema_check import problem_of
from outlast.core.errors import DecodingError

REFUND: dict[str, Any] = {
    "type": "object",
    "properties": {
        "cents": {"type": "integer", "minimum": 1, "maximum": 500},
        "reason": {"type": "string", "minLength": 2},
        "size": {"type": "string", "enum": ["s", "m"]},
        "kind": {"oneOf": [{"const": "a", "title": "A"}, {"const": "b"}]},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
        "sure": {"type": "boolean"},
        "rate": {"type": "number"},
    },
    "required": ["cents"],
}
FIELDS = (
    'cents (integer), reason (string, may be left out), size (one of "s", "m", may be left out), '
    'kind (one of "a", "b", may be left out), tags (list of string, may be left out), '
    "sure (boolean, may be left out), rate (number, may be left out)"
)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({}, "the form lacks 'cents'"),
        ({"cents": 5, "cent": 5, "why": 1}, "the form has no field 'cent', 'why'"),
        ({"cents": "many"}, 'cents must be integer, not "many"'),
        ({"cents": True}, "cents must be integer, not true"),
        ({"cents": 1.5}, "cents must be integer, not 1.5"),
        ({"cents": 0}, "cents must be at least 1, not 0"),
        ({"cents": 501}, "cents must be at most 500, not 501"),
        ({"cents": 5, "reason": None}, "reason must be string, not null"),
        ({"cents": 5, "reason": "x"}, "reason must have at least 2 characters, and has 1"),
        ({"cents": 5, "size": "l"}, 'size must be one of "s", "m", not "l"'),
        ({"cents": 5, "kind": "c"}, 'kind must be one of "a", "b", not "c"'),
        ({"cents": 5, "tags": ["x", 1]}, "tags[1] must be string, not 1"),
        ({"cents": 5, "tags": ["x", "y", "z"]}, "tags must have at most 2 items, and has 3"),
        ({"cents": 5, "sure": 1}, "sure must be boolean, not 1"),
    ],
)
def test_what_does_not_fit_is_said_with_the_fields_there_are(value: Any, problem: str) -> None:
    with pytest.raises(DecodingError) as raised:
        filled_in(value, SchemaForm(REFUND))
    assert str(raised.value) == f"{problem}. Its fields: {FIELDS}"


@pytest.mark.parametrize("value", [[], "yes", 5])
def test_a_form_is_an_object(value: Any) -> None:
    with pytest.raises(DecodingError, match=r"is no JSON object\. Its fields: cents"):
        filled_in(value, SchemaForm(REFUND))


def test_what_fits_comes_back_as_it_is() -> None:
    value = {"cents": 5.0, "reason": "ok", "size": "m", "kind": "b", "tags": ["x"], "sure": False, "rate": 1}
    assert filled_in(value, SchemaForm(REFUND)) is value
    assert blank({"properties": {"cents": {}, 'a"b': {}}}) == '{"cents": ..., "a\\"b": ...}'


@dataclasses.dataclass
class Part:
    name: str


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Order:
    size: Literal["s", "m"]
    colour: Colour = Colour.RED
    part: Part | None = None
    count: int = 1


class Limits(pydantic.BaseModel):
    cents: int = pydantic.Field(gt=0, le=500)


class Renamed(pydantic.BaseModel, validate_by_name=True):
    cents: int = pydantic.Field(alias="amount")


class Open(pydantic.BaseModel, extra="ignore"):
    cents: int


@pytest.mark.parametrize(
    ("form", "value", "problem"),
    [
        (Order, {"size": "s", "part": {"name": 5}}, 'part must be object or null, not {"name": 5}'),
        (Order, {"size": "s", "part": None, "counts": 5}, "the form has no field 'counts'"),
        (Order, {"part": None}, "the form lacks 'size'"),
        (Order, {"size": "s", "colour": "green"}, 'colour must be one of "blue", "red", not "green"'),
        (Limits, {"cents": 501}, "cents must be at most 500"),
        (Limits, {"cent": 5}, "the form lacks 'cents'"),
        (Renamed, {"amount": "many"}, 'amount must be integer, not "many"'),
        (Open, {"cents": "many", "more": 1}, 'cents must be integer, not "many"'),
    ],
)
def test_a_class_is_checked_by_its_schema(form: type, value: Any, problem: str) -> None:
    with pytest.raises(DecodingError) as raised:
        check_form(value, schema_of(form), all_names=False)
    assert str(raised.value).startswith(problem)
    with pytest.raises(DecodingError, match="Its fields: "):
        filled_in(value, form)


@pytest.mark.parametrize(
    ("form", "value"),
    [
        (Order, {"size": "s", "part": {"name": "x"}, "count": 5}),
        (Limits, {"cents": 5}),
        (Renamed, {"amount": 5}),
        (Renamed, {"cents": 5}),
        (Open, {"cents": 5, "more": 1}),
        (dict, {"any": 1}),
    ],
)
def test_what_its_class_takes_passes(form: type, value: Any) -> None:
    check_form(value, schema_of(form), all_names=False)
    assert isinstance(filled_in(value, form), form)


BOTH = {"anyOf": [{"$ref": "#/$defs/x"}, {"$ref": "#/$defs/y"}]}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "#/nowhere"},
        {"$ref": "elsewhere.json"},
        {"$ref": 5},
        {"$ref": "#/$defs/x", "$defs": {"x": BOTH, "y": BOTH}},
        {"properties": {"a": {"$ref": "#"}}, "items": {"$ref": "#"}},
        {"type": "strange", "properties": [], "required": "a", "enum": {}, "anyOf": 5, "minimum": "x"},
        {"type": {}, "required": [{}, 5], "properties": {"a": True}, "allOf": [5, None]},
        {"allOf": [{"$ref": "#"}] * 50, "anyOf": [{"$ref": "#"}] * 50},
        "no schema",
        None,
        [],
    ],
)
def test_a_schema_of_a_stranger_comes_to_an_end_and_refuses_nothing_that_it_does_not_say(schema: Any) -> None:
    deep: Any = {}
    for _ in range(200):
        deep = {"a": [deep]}
    assert problem_of(deep, schema) == ""
    assert fields_told(schema) in ("", "a (any value, may be left out)")
