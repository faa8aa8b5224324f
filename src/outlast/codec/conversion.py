"""Plain JSON, as a person types it, to the type that an annotation names."""

from __future__ import annotations

import sys
from typing import Any

import msgspec

from outlast.core.errors import DecodingError


def from_json(value: Any, annotation: Any, *, strict: bool = False) -> Any:
    """Return what plain JSON (dict, list, str, int, float, bool, None) is as `annotation`: a dataclass, a date...

    What is of the annotated type already, and what the annotation says nothing of, comes back as it is. Unless it is
    `strict`, a number may be written as a text. Raises DecodingError where the two do not fit.
    """
    try:
        if annotation is Any or (isinstance(annotation, type) and isinstance(value, annotation)):
            return value
        return msgspec.convert(value, annotation, strict=strict, dec_hook=_of_class)
    except msgspec.ValidationError as error:
        raise DecodingError(f"{value!r} is no {getattr(annotation, '__name__', annotation)}: {error}") from None
    except (TypeError, NotImplementedError):
        return value  # an annotation that says nothing of JSON, such as a protocol or a type variable


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
