"""Tags of instances that consist of named fields: dataclasses, attrs, structs, named tuples, enums, and subclasses.

An instance is stored as the name of its class and its state: what its `__dict__` and its slots hold. It is rebuilt by
putting that state back, without running a constructor, `__post_init__`, validators or properties: what they did
is in the state already, and doing it again could repeat an effect. A field that the class has gained since gets its
default; one that it has lost is kept as an attribute, or reported in the log where the instance has no room for it.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import logging
import sys
import types
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from outlast.codec.classes import (
    CONTAINERS,
    HEAP_TYPE,
    Kind,
    c_constructor,
    container_base,
    find_class,
    per_class,
    reference,
)
from outlast.codec.refusal import Refused, attribute, short, unsupported
from outlast.codec.tagging import TAGGERS, Walk, tag, tag_by_class, tagger, untag, untagger
from outlast.core.errors import DecodingError
from outlast.core.frames import KEPT

_log: Final = logging.getLogger("outlast.codec")
_SLOT: Final = types.MemberDescriptorType

# -- state -------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Shape:
    """Where the instances of a class keep their state."""

    fields: tuple[str, ...]  # declared ones, in their order: the order of the stored form
    slots: dict[str, types.MemberDescriptorType]
    derived: frozenset[str]  # not stored: caches that are filled by being read, so that digests would depend on it


@per_class
def shape_of(cls: type) -> Shape:
    """Return the shape of a class."""
    slots: dict[str, types.MemberDescriptorType] = {}
    derived = {"__orig_class__", "__notes__", KEPT}
    for base in cls.__mro__:
        is_python = bool(base.__flags__ & HEAP_TYPE)
        for name, member in list(vars(base).items()):  # a copy: pydantic completes classes when they are looked at
            if isinstance(member, _SLOT) and is_python:
                slots.setdefault(name, member)
            elif isinstance(member, functools.cached_property):
                derived.add(name)
    return Shape(_declared(cls), slots, frozenset(derived))


def _declared(cls: Any) -> tuple[str, ...]:
    if hasattr(cls, "__attrs_attrs__"):
        return tuple(field.name for field in cls.__attrs_attrs__)
    if issubclass(cls, msgspec.Struct):
        return tuple(cls.__struct_fields__)
    if dataclasses.is_dataclass(cls):
        return tuple(field.name for field in dataclasses.fields(cls))
    return ()


def namespace_of(value: object) -> dict[str, Any]:
    """Return the `__dict__` of an instance itself, an empty dict where it has none."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return found if isinstance(found, dict) else {}


def read_state(value: object, shape: Shape) -> dict[str, Any]:
    """Return the state of an instance by name: declared fields in their order, then the others by name."""
    state = dict(namespace_of(value))
    for name, slot in shape.slots.items():
        try:
            state[name] = slot.__get__(value)
        except AttributeError:  # a slot that was never set
            continue
    ordered = {name: state.pop(name) for name in shape.fields if name in state}
    ordered.update((name, state[name]) for name in sorted(state) if name not in shape.derived)
    if "_attrs_cached_hash" in ordered:  # hashes of strings differ between processes
        ordered["_attrs_cached_hash"] = None
    return ordered


def tag_state(state: dict[str, Any], container: object, walk: Walk, depth: int) -> dict[str, object]:
    """Tag the values of a state, as an object whose JSON starts at `depth`."""
    walk.enter(depth, len(state))
    tagged: dict[str, object] = {}
    name = ""
    try:
        for name, item in state.items():
            tagged[name] = TAGGERS.get(type(item), tag_by_class)(item, walk, depth + 1)
    except Refused as refused:
        refused.within(attribute(name), container)
        raise
    return tagged


def untag_state(payload: Any, hint: object) -> dict[str, Any]:
    """Take the tags off the values of a state."""
    if type(payload) is not dict:
        raise TypeError(f"expected an object, not {type(payload).__name__}")
    for name, item in payload.items():
        payload[name] = untag(item, hint)
    return payload


def write_state(value: object, shape: Shape, state: dict[str, Any]) -> None:
    """Put a state back into an instance, past `__setattr__`, properties and frozen classes."""
    try:
        namespace: dict[str, Any] | None = object.__getattribute__(value, "__dict__")
    except AttributeError:
        namespace = None
    if namespace is not None and not shape.slots:
        namespace.update(state)
        return
    for name, item in state.items():
        slot = shape.slots.get(name)
        if slot is not None:
            slot.__set__(value, item)
        elif namespace is not None:
            namespace[name] = item
        else:
            _report(type(value), [name])


def _report(cls: type, names: Iterable[str]) -> None:
    _log.warning("stored fields %s are not in %s.%s any more: left out", list(names), cls.__module__, cls.__qualname__)


# -- dataclasses and attrs ---------------------------------------------------


@tagger(Kind.DATACLASS)
def _tag_dataclass(value: object, walk: Walk, depth: int) -> object:
    cls = type(value)
    return {"$dataclass": [reference(cls), tag_state(read_state(value, shape_of(cls)), value, walk, depth + 2)]}


@tagger(Kind.ATTRS)
def _tag_attrs(value: object, walk: Walk, depth: int) -> object:
    cls = type(value)
    return {"$attrs": [reference(cls), tag_state(read_state(value, shape_of(cls)), value, walk, depth + 2)]}


@untagger("$dataclass")
def _untag_dataclass(payload: list[Any], hint: object) -> object:
    name, state = payload
    cls: Any = find_class(name, Kind.DATACLASS, hint)
    value = _bare(cls, name, untag_state(state, hint))
    for field_name in missing_fields(cls, state):
        field = cls.__dataclass_fields__[field_name]
        if field.default is not dataclasses.MISSING:
            if field_name not in shape_of(cls).slots:
                continue  # the class has it as an attribute; the instance keeps the bytes it had
            default = field.default
        elif field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        elif field.init:
            raise no_default(name, field_name)
        else:
            continue
        write_state(value, shape_of(cls), {field_name: default})
    return value


@untagger("$attrs")
def _untag_attrs(payload: list[Any], hint: object) -> object:
    name, state = payload
    cls: Any = find_class(name, Kind.ATTRS, hint)
    value = _bare(cls, name, untag_state(state, hint))
    attr = sys.modules["attr"]
    missing = missing_fields(cls, state)
    for field in cls.__attrs_attrs__ if missing else ():
        if field.name not in missing:
            continue
        default = field.default
        if isinstance(default, attr.Factory):
            default = default.factory(value) if default.takes_self else default.factory()
        elif default is attr.NOTHING:
            if not field.init:
                continue
            raise no_default(name, field.name)
        write_state(value, shape_of(cls), {field.name: default})
    return value


def missing_fields(cls: type, state: dict[str, Any]) -> list[str]:
    """Return the declared fields that the class has gained since the state was stored."""
    return [field for field in shape_of(cls).fields if field not in state]


def _bare(cls: type, name: str, state: dict[str, Any]) -> object:
    try:
        value: object = object.__new__(cls)
    except TypeError as error:
        raise DecodingError(f"{name} cannot be rebuilt: {error}") from None
    write_state(value, shape_of(cls), state)
    return value


def no_default(name: str, field: str) -> DecodingError:
    """Return the error for a class that has gained a field without a default."""
    return DecodingError(
        f"{name} was stored without the field {field!r}, which has no default: give it one, so that values "
        "stored before it existed can be read"
    )


# -- structs -----------------------------------------------------------------


@tagger(Kind.STRUCT)
def _tag_struct(value: msgspec.Struct, walk: Walk, depth: int) -> object:
    cls = type(value)
    return {"$struct": [reference(cls), tag_state(read_state(value, shape_of(cls)), value, walk, depth + 2)]}


@untagger("$struct")
def _untag_struct(payload: list[Any], hint: object) -> object:
    name, state = payload
    cls: Any = find_class(name, Kind.STRUCT, hint)
    fields = shape_of(cls).fields
    untag_state(state, hint)
    value: Any
    try:
        value = _constructor_of(cls)(**{field: state.pop(field) for field in fields if field in state})
    except TypeError as error:
        raise DecodingError(f"{name} cannot be rebuilt from what was stored: {error}") from None
    if type(value) is not cls:
        object.__dict__["__class__"].__set__(value, cls)
    if state and isinstance(value, msgspec.Struct):
        write_state(value, shape_of(cls), state)
    return value


@per_class
def _constructor_of(cls: type) -> Callable[..., object]:
    """Return what makes a struct without `__post_init__`: the class, or a twin of it with none.

    msgspec offers no way around `__post_init__`, but an instance of a subclass of equal layout may change its class.
    """
    if not hasattr(cls, "__post_init__"):
        return cls
    return msgspec.defstruct(
        cls.__name__, (), bases=(cls,), module=cls.__module__, namespace={"__post_init__": lambda self: None}
    )


# -- named tuples ------------------------------------------------------------


@tagger(Kind.NAMEDTUPLE)
def _tag_namedtuple(value: Any, walk: Walk, depth: int) -> object:
    cls = type(value)
    if tuple.__len__(value) != len(cls._fields):
        raise unsupported(value)
    fields = tag_state(dict(zip(cls._fields, tuple.__iter__(value), strict=True)), value, walk, depth + 2)
    extra = read_state(value, shape_of(cls))
    if not extra:
        return {"$namedtuple": [reference(cls), fields]}
    return {"$namedtuple": [reference(cls), fields, tag_state(extra, value, walk, depth + 2)]}


@untagger("$namedtuple")
def _untag_namedtuple(payload: list[Any], hint: object) -> object:
    name, fields, *extra = payload
    cls: Any = find_class(name, Kind.NAMEDTUPLE, hint)
    untag_state(fields, hint)
    values = []
    for field in cls._fields:
        if field not in fields and field not in cls._field_defaults:
            raise no_default(name, field)
        values.append(fields.pop(field) if field in fields else cls._field_defaults[field])
    if fields:
        _report(cls, fields)
    value: object = tuple.__new__(cls, values)
    if extra:
        write_state(value, shape_of(cls), untag_state(extra[0], hint))
    return value


# -- enums -------------------------------------------------------------------


@tagger(Kind.ENUM)
def _tag_enum(value: Any, walk: Walk, depth: int) -> object:
    cls = type(value)
    if value._name_ in cls.__members__:
        return {"$enum": [reference(cls), value._name_]}
    if isinstance(value, enum.Flag):  # several flags at once have no name of their own
        return {"$enum": [reference(cls), tag(value._value_, walk, depth)]}
    raise unsupported(value)


@untagger("$enum")
def _untag_enum(payload: list[Any], hint: object) -> object:
    name, member = payload
    cls: Any = find_class(name, Kind.ENUM, hint)
    if isinstance(member, str):
        if member in cls.__members__:
            return cls.__members__[member]
    elif issubclass(cls, enum.Flag):
        bits = untag(member, hint)
        known = cls._value2member_map_.get(bits)
        # Flag's own `_missing_`: calling the class could run one of the user's
        return known if known is not None else enum.Flag._missing_.__func__(cls, bits)  # type: ignore[attr-defined]
    raise DecodingError(f"{name} has no member {short(member)} any more: keep it until no stored value names it")


# -- subclasses of builtin containers ----------------------------------------


@tagger(Kind.SUBCLASS)
def _tag_subclass(value: Any, walk: Walk, depth: int) -> object:
    cls = type(value)
    base: Any = container_base(cls)
    if issubclass(base, dict):
        content = base(base.items(value))
    elif base is deque:
        content = deque(deque.__iter__(value), value.maxlen)
    else:
        content = base(base.__iter__(value))
    parts: list[object] = [reference(cls), tag(content, walk, depth + 2)]
    state = read_state(value, shape_of(cls))
    if state:
        parts.append(tag_state(state, value, walk, depth + 2))
    return {"$subclass": parts}


@untagger("$subclass")
def _untag_subclass(payload: list[Any], hint: object) -> object:
    name, stored, *state = payload
    cls = find_class(name, Kind.SUBCLASS, hint)
    base: Any = container_base(cls)
    content = untag(stored, hint)
    if type(content) is not base or base not in CONTAINERS:
        raise DecodingError(f"{name} extends {base.__name__} now, and was stored as {type(content).__name__}")
    maker: Any = c_constructor(cls)
    make = maker.__new__  # in C: the class may have one of its own
    if base in (tuple, frozenset):
        value = make(cls, content)
    else:
        value = make(cls)
        if base is deque:
            deque.__init__(value, content, content.maxlen)
        elif base is list:
            list.extend(value, content)
        elif base is set:
            set.update(value, content)
        else:
            for key, item in content.items():
                base.__setitem__(value, key, item)
    if state:
        write_state(value, shape_of(cls), untag_state(state[0], hint))
    return value
