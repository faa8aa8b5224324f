"""The walk that gives tags to what JSON lacks, and the walk that takes them off again.

A tag is an object with one key that starts with `$`, such as `{"$date": "2024-05-01"}`. A dict of the user's that
could be taken for a tag is itself tagged (`$dict`), so a tag never means anything else. Every module of this folder
that knows a type registers two functions here: one that tags it and one that takes the tag off.

Most values are plain JSON. The walk hands such a value back as it is, without a copy, and decoding does not walk at
all unless the bytes hold a tag.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from outlast.codec.classes import Kind, kind_of, per_class
from outlast.codec.refusal import Refused, attribute, short, text_of, type_name, unsupported
from outlast.core.errors import DecodingError
from outlast.core.telling import error_line

MAX_DEPTH: Final = 300  # levels of JSON; decoding needs up to two frames a level and CPython allows 1000 in all
INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**64 - 1

to_json: Final = msgspec.json.Encoder().encode
from_json: Final = msgspec.json.Decoder().decode


class _Never:
    """A type that no value has."""


class Walk:
    """What one encoding carries with it.

    `budget` is the number of items that may still come: each takes two bytes of JSON at least, so that a value which
    shares its parts (and would unfold without end) is refused before it fills the memory.
    `text` is the type that passes without a look. Lone surrogates in a `str` are rare and only msgspec finds them for
    free; when it has, the value is walked again with `check_text`, and every string is looked at.
    `lenient` is for what exceptions carry: a part that cannot be stored becomes its text instead of a refusal.
    `replaced` counts those parts. `part_bytes`, if not 0, cuts each part of an exception to that size.
    `open_errors` are the exceptions being walked. `outcome`: the value is an error that a step or run ended with.
    """

    __slots__ = ("budget", "check_text", "lenient", "open_errors", "outcome", "part_bytes", "replaced", "text")

    def __init__(self, max_bytes: int, *, check_text: bool = False, part_bytes: int = 0, outcome: bool = False) -> None:
        self.budget = max_bytes // 2 + 1
        self.check_text = check_text
        self.text: type = _Never if check_text else str
        self.lenient = False
        self.replaced = 0
        self.part_bytes = part_bytes
        self.open_errors: list[int] = []
        self.outcome = outcome

    def enter(self, depth: int, items: int) -> None:
        """Count a container of `items` parts whose JSON starts at `depth`."""
        if depth > MAX_DEPTH:
            raise too_deep()
        self.budget -= items
        if self.budget < 0:
            raise Refused("too many items for the size limit", too_large=True)


Tagger = Callable[[Any, Walk, int], object]
Untagger = Callable[[Any, object], object]
_T = TypeVar("_T", bound=Callable[..., object])

TAGGERS: Final[dict[type, Tagger]] = {}
KIND_TAGGERS: Final[dict[Kind, Tagger]] = {}
UNTAGGERS: Final[dict[str, Untagger]] = {}
LATE: Final = dict.fromkeys(("pathlib", "$path", "$purepath"), "outlast.codec.paths")
LATE["zoneinfo"] = "outlast.codec.zones"
"""What knows the types of a module, and tags, that are too rare to be imported before they come."""
FALLBACKS: Final[list[Callable[[type], Tagger | None]]] = []  # asked in order for a type that nothing else knows


def tagger(*keys: type | Kind) -> Callable[[_T], _T]:
    """Register the decorated `(value, walk, depth) -> JSON value` for these types or kinds of class."""

    def register(function: _T) -> _T:
        for key in keys:
            if isinstance(key, Kind):
                KIND_TAGGERS[key] = function
            else:
                TAGGERS[key] = function
        return function

    return register


def untagger(tag: str) -> Callable[[_T], _T]:
    """Register the decorated `(payload, hint) -> value` for a tag; `hint` is the annotation to search for classes."""

    def register(function: _T) -> _T:
        UNTAGGERS[tag] = function
        return function

    return register


def too_deep() -> Refused:
    """Return the refusal of a value that is nested too deep to be read back safely."""
    return Refused(f"nested deeper than {MAX_DEPTH} levels. Make it flatter, or let it refer by id.", too_deep=True)


# -- encoding ---------------------------------------------------------------


def tag(value: object, walk: Walk, depth: int) -> object:
    """Return `value` in JSON's own types; `value` itself when nothing in it needs a tag."""
    return TAGGERS.get(type(value), tag_by_class)(value, walk, depth)


def tag_by_class(value: object, walk: Walk, depth: int) -> object:
    """Tag a value whose exact type is not registered: by what kind of class it has."""
    cls = type(value)
    try:
        found = _tagger_of(cls)
        if found is None:
            raise unsupported(value)
        return found(value, walk, depth)
    except Refused as refused:
        if walk.lenient and not refused.too_deep and not refused.too_large:
            walk.replaced += 1
            return tag(text_of(value), walk, depth)
        raise
    except (RecursionError, UnicodeEncodeError, MemoryError):  # the codec answers these itself
        raise
    except Exception as error:  # changed by another thread, half built, or hostile: the path is kept all the same
        raise Refused(f"type {type_name(cls)} cannot be stored: {error_line(error)}") from error


@per_class
def _tagger_of(cls: type) -> Tagger | None:
    if _import_late(cls.__module__.partition(".")[0]) and cls in TAGGERS:
        return TAGGERS[cls]
    kind = kind_of(cls)
    if kind is not None:
        return KIND_TAGGERS.get(kind)
    return next((found for ask in FALLBACKS if (found := ask(cls)) is not None), None)


def _import_late(name: str) -> bool:
    """Import what knows the types of a module, or a tag; tell whether there is such a thing."""
    late = LATE.get(name)
    if late is not None:
        importlib.import_module(late)
    return late is not None


@tagger(list)
def tag_list(value: list[Any], walk: Walk, depth: int) -> list[Any]:
    """Tag the items of a list."""
    walk.enter(depth, len(value))
    text, tagged, index = walk.text, value, 0
    try:
        for index, item in enumerate(value):
            cls = type(item)
            if cls is text or item is None or cls is bool:
                continue
            if cls is int:
                if INT_MIN <= item <= INT_MAX:
                    continue
            elif cls is float and item - item == 0.0:  # false for nan and the infinities
                continue
            new = TAGGERS.get(cls, tag_by_class)(item, walk, depth + 1)
            if new is not item:
                if tagged is value:
                    tagged = value.copy()
                tagged[index] = new
    except Refused as refused:
        refused.within(f"[{index}]", value)
        raise
    return tagged


@tagger(dict)
def tag_dict(value: dict[Any, Any], walk: Walk, depth: int) -> dict[Any, Any]:
    """Tag the values of a dict, or all of it when its keys are not those of a JSON object."""
    walk.enter(depth, len(value))
    text, tagged, key = walk.text, value, None
    for key in value:
        # `$` sorts before letters and digits, so that one comparison clears most keys
        if (type(key) is not text and not is_clean_text(key)) or (key < "%" and key[:1] == "$"):
            return _tag_odd_keys(value, walk, depth)
    try:
        for key, item in value.items():
            cls = type(item)
            if cls is text or item is None or cls is bool:
                continue
            if cls is int:
                if INT_MIN <= item <= INT_MAX:
                    continue
            elif cls is float and item - item == 0.0:
                continue
            new = TAGGERS.get(cls, tag_by_class)(item, walk, depth + 1)
            if new is not item:
                if tagged is value:
                    tagged = value.copy()
                tagged[key] = new
    except Refused as refused:
        refused.within(attribute(key), value)
        raise
    return tagged


def is_clean_text(value: object) -> bool:
    """Tell whether `value` is a `str` without lone surrogates, which UTF-8 cannot hold."""
    if type(value) is not str:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _tag_odd_keys(value: dict[Any, Any], walk: Walk, depth: int) -> dict[Any, Any]:
    """Tag a dict with keys that JSON objects cannot have, as `{"$dict": [[key, value], ...]}`."""
    pairs: list[tuple[object, object]] = []
    is_object = True
    for key, item in value.items():
        try:
            name = TAGGERS.get(type(key), tag_by_class)(key, walk, depth + 3)
        except Refused as refused:
            refused.within(f"<key {short(key)}>", value)
            raise
        try:
            pairs.append((name, TAGGERS.get(type(item), tag_by_class)(item, walk, depth + 3)))
        except Refused as refused:
            refused.within(attribute(key), value)
            raise
        is_object = is_object and type(name) is str and not name.startswith("$")
    if is_object:  # keys of a subclass of str have become plain: the same bytes as for the dict that comes back
        return dict(pairs)
    return {"$dict": pairs}


# -- decoding ---------------------------------------------------------------


def untag(value: Any, hint: object) -> Any:
    """Return `value`, fresh from JSON, with its tags replaced by what they stand for (in place where it can)."""
    cls = type(value)
    if cls is list:
        for index, item in enumerate(value):
            if type(item) is dict or type(item) is list:
                value[index] = untag(item, hint)
    elif cls is dict:
        if len(value) == 1:
            (key,) = value
            if key[:1] == "$":
                found = UNTAGGERS.get(key)
                if found is None and _import_late(key):
                    found = UNTAGGERS.get(key)
                if found is None:
                    raise DecodingError(f"unknown tag {key!r}: was it stored by a newer version of Outlast?")
                return found(value[key], hint)
        for key, item in value.items():
            if type(item) is dict or type(item) is list:
                value[key] = untag(item, hint)
    return value


@untagger("$dict")
def _untag_dict(payload: list[list[Any]], hint: object) -> dict[Any, Any]:
    plain: dict[Any, Any] = {}
    for key, item in payload:  # no comprehension: on 3.11 that is one more frame for each level
        plain[untag(key, hint)] = untag(item, hint)
    return plain
