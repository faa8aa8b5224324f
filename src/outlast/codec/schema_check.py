"""Whether plain JSON fits a JSON schema, where the class that the schema tells of is not at hand.

Only what is certain is a problem. What is not understood here (patterns, formats, conditions) passes; who has the
class, or asked for the form, looks at that. A schema may be a stranger's: references in circles, and choices that
multiply, come to an end and pass.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

MOST_STEPS = 5_000
DEEPEST = 60
MOST_TOLD = 20
NESTING_TOLD = 2

KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int, float),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}
BOUNDS: dict[str, tuple[str, Any]] = {
    "minimum": ("at least {}", lambda size, bound: size >= bound),
    "maximum": ("at most {}", lambda size, bound: size <= bound),
    "exclusiveMinimum": ("more than {}", lambda size, bound: size > bound),
    "exclusiveMaximum": ("less than {}", lambda size, bound: size < bound),
}
LENGTHS: dict[str, type[str] | type[list[Any]]] = {
    "minLength": str,
    "maxLength": str,
    "minItems": list,
    "maxItems": list,
}
LENGTH_UNITS: dict[type[str] | type[list[Any]], str] = {str: "characters", list: "items"}


def problem_of(value: Any, schema: Any, *, all_names: bool = True) -> str:
    """Return what in a value does not fit a schema, beginning with where it is; "" where nothing is certain.

    Unless it tells `all_names`, a field may be given by others, the aliases of a class: then none is missing for
    certain, but where `additionalProperties` are refused.
    """
    return next(_Check(schema, all_names).problems(value, schema, "", 0, ()), "")


def resolved(schema: Any, root: Any) -> dict[str, Any]:
    """Return a schema, or what it refers to within `root`; an empty one where that is not to be found."""
    for _ in range(DEEPEST):
        if not isinstance(schema, dict):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        schema = _target(reference, root)
    return {}


def _target(reference: str, root: Any) -> Any:
    if not reference.startswith("#"):
        return None
    target = root
    for part in reference[1:].split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        target = target.get(name) if isinstance(target, dict) else None
    return target


class _Check:
    """One check of one value."""

    def __init__(self, root: Any, all_names: bool) -> None:
        self._root = root
        self._all_names = all_names
        self._steps = 0

    def problems(self, value: Any, schema: Any, path: str, depth: int, seen: tuple[str, ...]) -> Iterator[str]:
        """Yield what does not fit. `seen` are the references that were followed for this very value."""
        self._steps += 1
        if self._steps > MOST_STEPS or depth > DEEPEST or not isinstance(schema, dict):
            return
        if not isinstance(value, (str, int, float, list, dict, type(None))):
            return  # an object of a class: that looks itself
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference not in seen:
            yield from self.problems(value, _target(reference, self._root), path, depth + 1, (*seen, reference))
        for each in _list(schema.get("allOf")):
            yield from self.problems(value, each, path, depth + 1, seen)
        for word in ("anyOf", "oneOf"):
            yield from self._choices(value, _list(schema.get(word)), path, depth, seen)
        yield from _own(value, schema, path, self._root)
        if isinstance(value, dict):
            yield from self._fields(value, schema, path, depth)
        if isinstance(value, list):
            for n, item in enumerate(value):
                yield from self.problems(item, schema.get("items"), f"{path}[{n}]", depth + 1, ())

    def _choices(self, value: Any, choices: list[Any], path: str, depth: int, seen: tuple[str, ...]) -> Iterator[str]:
        found = [next(self.problems(value, each, path, depth + 1, seen), "") for each in choices]
        if found and all(found):
            yield _must_be(path, kind_of({"anyOf": choices}, self._root), value)

    def _fields(self, value: dict[str, Any], schema: dict[str, Any], path: str, depth: int) -> Iterator[str]:
        properties = schema.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        required = [name for name in _list(schema.get("required")) if isinstance(name, str)]
        closed = schema.get("additionalProperties") is False
        if closed or self._all_names:
            missing = [name for name in required if name not in value]
            if missing:
                yield f"{_where(path)} lacks {_names(missing)}"
        if closed and "patternProperties" not in schema:
            unknown = [name for name in value if name not in properties and name not in required]
            if unknown:
                yield f"{_where(path)} has no field {_names(unknown)}"
        for name, part in value.items():
            yield from self.problems(part, properties.get(name), f"{path}.{name}" if path else name, depth + 1, ())


def _own(value: Any, schema: dict[str, Any], path: str, root: Any) -> Iterator[str]:
    """Yield what the words of one schema say of a value itself."""
    kinds = [k for k in _list(schema.get("type")) or [schema.get("type")] if isinstance(k, str)]
    if kinds and all(kind in KINDS for kind in kinds) and not any(_is(value, kind) for kind in kinds):
        yield _must_be(path, kind_of(schema, root), value)
        return
    if "const" in schema and not _same(value, schema["const"]):
        yield _must_be(path, _short(schema["const"]), value)
    choices = _list(schema.get("enum"))
    if choices and not any(_same(value, choice) for choice in choices):
        yield _must_be(path, kind_of(schema, root), value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        for word, (said, fits) in BOUNDS.items():
            bound = schema.get(word)
            if isinstance(bound, (int, float)) and not isinstance(bound, bool) and not fits(value, bound):
                yield _must_be(path, said.format(bound), value)
    for word, kind in LENGTHS.items():
        bound = schema.get(word)
        if isinstance(value, kind) and isinstance(bound, int):
            size = len(value)
            if size < bound if word.startswith("min") else size > bound:
                least = "at least" if word.startswith("min") else "at most"
                yield f"{_where(path)} must have {least} {bound} {LENGTH_UNITS[kind]}, and has {size}"


def kind_of(schema: Any, root: Any, depth: int = 0) -> str:
    """Say what a value is to be: `integer`, `one of "a", "b"`, `list of string`, `integer or null`."""
    schema = resolved(schema, root)
    parts = [part for word in ("anyOf", "oneOf") for part in _list(schema.get(word))][:MOST_TOLD]
    choices = _list(schema.get("enum"))[:MOST_TOLD]
    if parts and all(isinstance(part, dict) and "const" in part for part in parts):
        choices = [part["const"] for part in parts]
    if choices:
        return f"one of {', '.join(map(_short, choices))}"
    if "const" in schema:
        return _short(schema["const"])
    if depth > NESTING_TOLD:
        return "any value"
    if parts:
        return " or ".join(dict.fromkeys(kind_of(part, root, depth + 1) for part in parts))
    kind = schema.get("type")
    if kind == "array":
        return f"list of {kind_of(schema['items'], root, depth + 1)}" if "items" in schema else "list"
    if isinstance(kind, list):
        return " or ".join(map(str, kind[:MOST_TOLD]))
    return kind if isinstance(kind, str) else "any value"


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, KINDS[kind])


def _same(one: Any, other: Any) -> bool:
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _list(said: Any) -> list[Any]:
    return said if isinstance(said, list) else []


def _where(path: str) -> str:
    return path or "the form"


def _names(names: list[Any]) -> str:
    return ", ".join(repr(name) for name in names[:20])


def _must_be(path: str, what: str, value: Any) -> str:
    return f"{_where(path)} must be {what}, not {_short(value)}"


def _short(value: Any) -> str:
    """Return a value as a person has typed it."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
