"""Which fields of plain JSON found no place in the object that was made of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import msgspec


def unknown_fields(given: Any, made: Any, path: str = "") -> Iterator[str]:
    """Yield the fields that a class does not have: `card`, or within another `owner.card`, `lines[2].card`.

    A pydantic model whose `extra` says what becomes of them is left to that.
    """
    if isinstance(given, list) and isinstance(made, (list, tuple)):
        for n, (part, whole) in enumerate(zip(given, made, strict=False)):
            yield from unknown_fields(part, whole, f"{path}[{n}]")
    elif isinstance(given, dict) and isinstance(made, dict):
        for name, part in given.items():
            yield from unknown_fields(part, made.get(name), f"{path}.{name}" if path else str(name))
    elif isinstance(given, dict) and (places := _places(type(made))) is not None:
        open_ended = "extra" in (getattr(type(made), "model_config", None) or {})
        for name, part in given.items():
            here = f"{path}.{name}" if path else str(name)
            if name in places:
                yield from unknown_fields(part, getattr(made, places[name], None), here)
            elif not open_ended:
                yield here


def _places(cls: Any) -> dict[str, str] | None:
    """Return the attribute of each name that a field may be given by; None for a class of which nothing is known."""
    if issubclass(cls, msgspec.Struct):
        return dict(zip(cls.__struct_encode_fields__, cls.__struct_fields__, strict=True))
    if dataclasses.is_dataclass(cls):
        return {field.name: field.name for field in dataclasses.fields(cls)}
    if hasattr(cls, "__attrs_attrs__"):
        return {field.name: field.name for field in cls.__attrs_attrs__}
    if hasattr(cls, "model_fields"):
        return {name: field for field, info in cls.model_fields.items() for name in (field, *_aliases(info))}
    return None


def _aliases(info: Any) -> Iterator[str]:
    """Yield the names by which a pydantic field may be given: one, several, or the first part of a path."""
    for alias in (info.alias, info.validation_alias):
        for choice in getattr(alias, "choices", [alias]):
            name = getattr(choice, "path", [choice])[0]
            if isinstance(name, str):
                yield name
