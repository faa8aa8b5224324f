"""Plain JSON, as a person types it, to the type that an annotation names."""

from __future__ import annotations

import dataclasses
import sys
from collections import deque
from typing import Any

import msgspec

from outlast.codec.unknown_fields import unknown_fields
from outlast.core.errors import DecodingError


def from_json(value: Any, annotation: Any, *, strict: bool = False) -> Any:
    """Return what plain JSON (dict, list, str, int, float, bool, None) is as `annotation`: a dataclass, a date...

    What is of the annotated type already, and what the annotation says nothing of, comes back as it is. Unless it is
    `strict`, a number may be written as a text. Raises DecodingError where the two do not fit.
    """
    try:
        if annotation is Any or (isinstance(annotation, type) and isinstance(value, annotation)):
            return value
        made = msgspec.convert(value, annotation, strict=strict, dec_hook=_of_class)
    except msgspec.ValidationError as error:
        raise DecodingError(f"{value!r} is no {getattr(annotation, '__name__', annotation)}: {error}") from None
    except (TypeError, NotImplementedError):
        return value  # an annotation that says nothing of JSON, such as a protocol or a type variable
    _keep_defaults(made, set())
    return made


def form_from_json(value: Any, annotation: Any) -> Any:
    """Do the same for what a person fills in, where a field that the class does not have is a slip of the pen.

    Raises DecodingError for those, too, and names them.
    """
    made = from_json(value, annotation, strict=True)
    if unknown := list(unknown_fields(value, made)):
        name = getattr(annotation, "__name__", annotation)
        raise DecodingError(f"{name} has no field {', '.join(map(repr, unknown))}")
    return made


_SEVERAL = (list, tuple, set, frozenset, deque)


def _keep_defaults(value: Any, seen: set[int]) -> None:
    """Give the dataclasses in a value the fields that were left at their defaults, as their constructors do.

    msgspec leaves a plain default to the class. It would not be stored, and be another one after a change of the code.
    """
    if isinstance(value, (str, int, float)) or value is None or id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, dict):
        parts = list(value.values())
    elif isinstance(value, _SEVERAL):
        parts = list(value)
    elif isinstance(value, msgspec.Struct):
        parts = [getattr(value, name, None) for name in value.__struct_fields__]
    elif dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        own: Any = getattr(value, "__dict__", None)
        for field in fields if own is not None else ():
            if field.init and field.default is not dataclasses.MISSING and not _has(value, field.name):
                own[field.name] = field.default
        parts = [getattr(value, field.name, None) for field in fields]
    else:
        parts = [getattr(value, field.name, None) for field in getattr(value, "__attrs_attrs__", ())]
    for part in parts:
        _keep_defaults(part, seen)


def _has(value: Any, name: str) -> bool:
    """Tell whether an instance has a field of its own, in its dict or in a slot."""
    return name in value.__dict__ or any(name in getattr(cls, "__slots__", ()) for cls in type(value).__mro__)


def _of_class(cls: Any, value: Any) -> Any:
    """Make an instance of a class that msgspec does not know."""
    if isinstance(cls, type) and isinstance(value, cls):
        return value
    if hasattr(cls, "model_validate"):
        return cls.model_validate(value)  # pydantic's error is a ValueError, which msgspec makes its own
    pathlib = sys.modules.get("pathlib")  # not imported: then no class is one of its
    if pathlib is not None and isinstance(cls, type) and issubclass(cls, pathlib.PurePath):
        return cls(value)
    raise NotImplementedError(f"no way from JSON to {cls!r}")
