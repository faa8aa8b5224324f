"""Tags of pydantic's models and URLs, and how its `ValidationError` is rebuilt. Imports nothing of pydantic.

A model's fields, extras and private attributes are put back as they were. Validation is not run again: it could
change a value, fail under newer rules, or refuse what `model_construct` had let through.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from outlast.codec.classes import Kind, find_class, reference
from outlast.codec.instances import namespace_of, no_default, shape_of, tag_state, untag_state
from outlast.codec.tagging import FALLBACKS, Tagger, Walk, tagger, untagger
from outlast.core.errors import DecodingError

_set: Final = object.__setattr__  # past the model's own, which validates and may be frozen


@tagger(Kind.PYDANTIC)
def _tag_model(value: Any, walk: Walk, depth: int) -> object:
    """`[name, fields]`, and a third part with `set`, `extra` and `private` where they say something."""
    cls: Any = type(value)
    stored = namespace_of(value)
    derived = shape_of(cls).derived
    fields = {name: stored[name] for name in cls.model_fields if name in stored}
    others = {name: item for name, item in sorted(stored.items()) if name not in fields and name not in derived}
    parts: list[object] = [reference(cls), tag_state({**fields, **others}, value, walk, depth + 2)]
    more: dict[str, object] = {}
    if value.__pydantic_fields_set__ != set(cls.model_fields):
        more["set"] = sorted(value.__pydantic_fields_set__)
    if value.__pydantic_extra__:
        more["extra"] = tag_state(value.__pydantic_extra__, value, walk, depth + 3)
    private = value.__pydantic_private__
    if private:
        more["private"] = tag_state(dict(sorted(private.items())), value, walk, depth + 3)
    if more:
        parts.append(more)
    return {"$pydantic": parts}


@untagger("$pydantic")
def _untag_model(payload: list[Any], hint: object) -> object:
    name, stored, *rest = payload
    cls: Any = find_class(name, Kind.PYDANTIC, hint)
    more = rest[0] if rest else {}
    untag_state(stored, hint)
    fields_set = set(more.get("set", stored))
    extra = untag_state(more.get("extra", {}), hint)
    unknown = [field for field in stored if field not in cls.model_fields]
    if cls.model_config.get("extra") == "allow":
        extra.update((field, stored.pop(field)) for field in unknown)
    for field, info in cls.model_fields.items():
        if field not in stored and field not in extra:
            stored[field] = _default(info, name, field, stored)
    value = object.__new__(cls)
    _set(value, "__dict__", stored)
    _set(value, "__pydantic_fields_set__", fields_set)
    _set(value, "__pydantic_extra__", extra if extra or cls.model_config.get("extra") == "allow" else None)
    _set(value, "__pydantic_private__", _private(cls, untag_state(more.get("private", {}), hint)))
    return value


def _default(info: Any, name: str, field: str, so_far: dict[str, Any]) -> Any:
    if info.is_required():
        raise no_default(name, field)
    try:
        return info.get_default(call_default_factory=True, validated_data=so_far)
    except TypeError:  # pydantic before 2.10 knows no factories that take data
        return info.get_default(call_default_factory=True)


def _private(cls: Any, stored: dict[str, Any]) -> dict[str, Any] | None:
    declared = cls.__private_attributes__
    if not declared and not stored:
        return None
    undefined = sys.modules["pydantic_core"].PydanticUndefined
    defaults = {name: info.get_default() for name, info in declared.items() if name not in stored}
    return {**{name: item for name, item in defaults.items() if item is not undefined}, **stored}


# -- URLs --------------------------------------------------------------------


def _core_class_of(cls: type) -> Any:
    """Return the class of pydantic_core that a URL class of pydantic wraps in its `_url`."""
    core, networks = sys.modules["pydantic_core"], sys.modules["pydantic.networks"]
    return core.Url if issubclass(cls, networks._BaseUrl) else core.MultiHostUrl


@tagger(Kind.URL)
def _tag_url(value: Any, walk: Walk, depth: int) -> object:
    return {"$url": [reference(type(value)), str(value._url)]}


def _core_url_tagger(cls: type) -> Tagger | None:
    core = sys.modules.get("pydantic_core")
    return _tag_core_url if core is not None and cls in (core.Url, core.MultiHostUrl) else None


FALLBACKS.append(_core_url_tagger)


def _tag_core_url(value: object, walk: Walk, depth: int) -> object:
    return {"$url": [type(value).__name__, str(value)]}


@untagger("$url")
def _untag_url(payload: list[str], hint: object) -> object:
    name, text = payload
    core = sys.modules.get("pydantic_core")
    if core is None:
        raise DecodingError(f"a URL of type {name} cannot be rebuilt: import pydantic in the worker")
    if name in ("Url", "MultiHostUrl"):
        return getattr(core, name)(text)
    cls = find_class(name, Kind.URL, hint)
    value: object = object.__new__(cls)
    _set(value, "_url", _core_class_of(cls)(text))
    return value


# -- ValidationError ---------------------------------------------------------


def is_validation_error(cls: type) -> bool:
    """Tell whether `cls` is pydantic's `ValidationError`, which is made in Rust and has no `__new__`."""
    core = sys.modules.get("pydantic_core")
    return core is not None and cls is core.ValidationError


def tag_validation_error(error: Any, walk: Walk, depth: int) -> list[object]:
    """Return a `ValidationError` as `[title, {type, loc, msg, input, ctx}, ...]`."""
    lines = error.errors(include_url=False)
    return [error.title, *(tag_state({**line, "loc": list(line["loc"])}, error, walk, depth + 1) for line in lines)]


def untag_validation_error(payload: list[Any], text: object) -> BaseException:
    """Rebuild a `ValidationError` whose `str()` is `text`, as far as pydantic lets one."""
    core: Any = sys.modules["pydantic_core"]
    title, *stored = payload
    lines = []
    for line in stored:
        untag_state(line, None)
        kind, context = line["type"], line.get("ctx", {})
        try:
            core.PydanticKnownError(kind, context or None)
        except (KeyError, TypeError, ValueError):  # the user's own kind of error
            kind = core.PydanticCustomError(kind, line["msg"], context)
        detail = {"ctx": context} if context else {}
        lines.append({"type": kind, "loc": tuple(line["loc"]), "input": line["input"], **detail})
    rebuilt: list[BaseException] = []
    for input_type in ("python", "json"):  # the error does not say which, and it changes some of the messages
        error: BaseException = core.ValidationError.from_exception_data(title, lines, input_type)
        if str(error) == text:
            return error
        rebuilt.append(error)
    return rebuilt[0]
