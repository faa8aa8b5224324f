"""The forms that people fill in: what they ask for, as a JSON schema, and what is made of what was filled in."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from outlast.codec.conversion import form_from_json
from outlast.codec.schema_check import kind_of, problem_of, resolved
from outlast.core.errors import DecodingError

MOST_FIELDS = 20
"""So many fields are told of in an error."""

ELSEWHERE = frozenset({"$ref", "allOf", "anyOf", "oneOf", "patternProperties"})
"""By these words a schema has fields that it does not name itself."""


class SchemaForm:
    """A form that a JSON schema tells of, with no class: what is filled in comes back as plain JSON.

    Where it has required fields, yes without the form is no answer. A field that it does not name is refused, unless
    its `additionalProperties` say otherwise.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        whole = "properties" in schema and not ELSEWHERE & schema.keys()
        self.schema = {"additionalProperties": False} | schema if whole else schema


def schema_of(form: Any) -> dict[str, Any] | None:
    """Return a form as a JSON schema, for whoever shows it; None where it has none."""
    if form is None:
        return None
    if isinstance(form, SchemaForm):
        return form.schema
    try:
        if hasattr(form, "model_json_schema"):
            return _closed_model(form, form.model_json_schema())
        return _closed(msgspec.json.schema(form))
    except Exception:  # noqa: BLE001 - a class of the user's may refuse in any way
        return None


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    """Say of the classes in a schema that they have no other fields, as `form_from_json` has it."""
    for part in (schema, *schema.get("$defs", {}).values()):
        if "properties" in part:
            part.setdefault("additionalProperties", False)
    return schema


def _closed_model(model: Any, schema: dict[str, Any]) -> dict[str, Any]:
    """Do so for a pydantic model that says nothing of it, and whose fields have no other names (aliases)."""
    fields: dict[str, Any] = model.model_fields
    aliased = any(info.alias is not None or info.validation_alias is not None for info in fields.values())
    top = resolved(schema, schema)
    if "extra" not in model.model_config and not aliased and set(top.get("properties", ())) == set(fields):
        top.setdefault("additionalProperties", False)
    return schema


def filled_in(value: Any, form: Any) -> Any:
    """Return what a form is, filled in with plain JSON. Raises DecodingError, which tells its fields."""
    if isinstance(form, SchemaForm):
        if not isinstance(value, dict):
            raise DecodingError(f"{type(value).__name__} is no JSON object{_its_fields(form.schema)}")
        check_form(value, form.schema)
        return value
    try:
        return form_from_json(value, form)
    except DecodingError as error:
        raise DecodingError(f"{error}{_its_fields(schema_of(form))}") from None


def check_form(value: Any, schema: Any, *, all_names: bool = True) -> None:
    """Raise DecodingError where what was filled in is certain not to fit a schema; `all_names` as in `problem_of`."""
    if problem := problem_of(value, schema, all_names=all_names):
        raise DecodingError(f"{problem}{_its_fields(schema)}")


def check_given(form: SchemaForm) -> None:
    """Raise DecodingError if this form has to be filled in, for it was not."""
    if required := required_of(form.schema):
        raise DecodingError(f"it was approved without the form, which asks for {', '.join(map(repr, required))}")


def required_of(schema: Any) -> list[str]:
    """Return the fields that a form has to have."""
    required = resolved(schema, schema).get("required")
    return [name for name in required if isinstance(name, str)] if isinstance(required, list) else []


def blank(schema: Any) -> str:
    """Return how a form is to be filled in, as JSON with gaps: `{"cents": ..., "reason": ...}`."""
    return f"{{{', '.join(f'{json.dumps(name)}: ...' for name in _fields(schema))}}}"


def fields_told(schema: Any) -> str:
    """Tell of a form's fields: `cents (integer), reason (string, may be left out)`."""
    fields, required = _fields(schema), required_of(schema)
    return ", ".join(
        f"{name} ({kind_of(said, schema)}{'' if name in required else ', may be left out'})"
        for name, said in fields.items()
    )


def _its_fields(schema: Any) -> str:
    told = fields_told(schema)
    return f". Its fields: {told}" if told else ""


def _fields(schema: Any) -> dict[str, Any]:
    properties = resolved(schema, schema).get("properties")
    return dict(list(properties.items())[:MOST_FIELDS]) if isinstance(properties, dict) else {}
