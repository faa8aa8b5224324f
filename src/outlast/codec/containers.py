"""Tags of containers: tuples, sets, ranges, and the dicts and queues of `collections`."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from outlast.codec.refusal import Refused
from outlast.codec.tagging import TAGGERS, Walk, tag, tag_by_class, tag_dict, tagger, to_json, untag, untagger

# The factories that can be named without naming code.
_FACTORIES: Final[dict[str, Callable[[], Any] | None]] = {
    "none": None,
    **{cls.__name__: cls for cls in (bool, bytes, dict, float, int, list, set, str, tuple)},
}
_FACTORY_NAMES: Final = {factory: name for name, factory in _FACTORIES.items()}


def tag_items(items: Iterable[Any], container: object, size: int, walk: Walk, depth: int) -> list[object]:
    """Tag what `items` gives, as a list whose JSON starts at `depth`."""
    walk.enter(depth, size)
    tagged: list[object] = []
    try:
        for item in items:
            new = TAGGERS.get(type(item), tag_by_class)(item, walk, depth + 1)
            tagged.append(new)
    except Refused as refused:
        refused.within(f"[{len(tagged)}]", container)
        raise
    return tagged


@tagger(tuple)
def _tag_tuple(value: tuple[Any, ...], walk: Walk, depth: int) -> object:
    return {"$tuple": tag_items(value, value, len(value), walk, depth + 1)}


@untagger("$tuple")
def _untag_tuple(payload: list[Any], hint: object) -> tuple[Any, ...]:
    return tuple(untag_items(payload, hint))


def untag_items(payload: Any, hint: object) -> list[Any]:
    """Take the tags off the items of a list; the list itself must be one."""
    if type(payload) is not list:
        raise TypeError(f"expected a list, not {type(payload).__name__}")
    untagged: list[Any] = untag(payload, hint)
    return untagged


def _tag_members(value: set[Any] | frozenset[Any], walk: Walk, depth: int) -> list[object]:
    """Tag the members in the order of their JSON: a set's own order changes with PYTHONHASHSEED."""
    walk.enter(depth, len(value))
    members: list[object] = []
    for member in value:
        try:
            members.append(tag(member, walk, depth + 1))
        except Refused as refused:
            refused.within("{…}", value)
            raise
    return sorted(members, key=to_json)


@tagger(set)
def _tag_set(value: set[Any], walk: Walk, depth: int) -> object:
    return {"$set": _tag_members(value, walk, depth + 1)}


@untagger("$set")
def _untag_set(payload: list[Any], hint: object) -> set[Any]:
    return set(untag_items(payload, hint))


@tagger(frozenset)
def _tag_frozenset(value: frozenset[Any], walk: Walk, depth: int) -> object:
    return {"$frozenset": _tag_members(value, walk, depth + 1)}


@untagger("$frozenset")
def _untag_frozenset(payload: list[Any], hint: object) -> frozenset[Any]:
    return frozenset(untag_items(payload, hint))


@tagger(deque)
def _tag_deque(value: deque[Any], walk: Walk, depth: int) -> object:
    return {"$deque": [tag_items(value, value, len(value), walk, depth + 2), value.maxlen]}


@untagger("$deque")
def _untag_deque(payload: list[Any], hint: object) -> deque[Any]:
    items, maxlen = payload
    return deque(untag_items(items, hint), maxlen)


@tagger(range)
def _tag_range(value: range, walk: Walk, depth: int) -> object:
    parts = (value.start, value.stop, value.step)
    return {"$range": tag_items(parts, value, 3, walk, depth + 1)}


@untagger("$range")
def _untag_range(payload: list[Any], hint: object) -> range:
    start, stop, step = untag_items(payload, hint)
    return range(start, stop, step)


def untag_mapping(payload: Any, hint: object) -> dict[Any, Any]:
    """Take the tags off a dict that another tag holds."""
    plain = untag(payload, hint)
    if type(plain) is not dict:
        raise TypeError(f"expected a dict, not {type(plain).__name__}")
    return plain


@tagger(OrderedDict)
def _tag_ordered_dict(value: OrderedDict[Any, Any], walk: Walk, depth: int) -> object:
    # its own items(): the order of the dict underneath does not follow move_to_end
    return {"$ordereddict": tag_dict(dict(OrderedDict.items(value)), walk, depth + 1)}


@untagger("$ordereddict")
def _untag_ordered_dict(payload: Any, hint: object) -> OrderedDict[Any, Any]:
    return OrderedDict(untag_mapping(payload, hint))


@tagger(Counter)
def _tag_counter(value: Counter[Any], walk: Walk, depth: int) -> object:
    return {"$counter": tag_dict(dict(value), walk, depth + 1)}


@untagger("$counter")
def _untag_counter(payload: Any, hint: object) -> Counter[Any]:
    counter: Counter[Any] = Counter()
    dict.update(counter, untag_mapping(payload, hint))  # Counter's own update adds up numbers
    return counter


@tagger(defaultdict)
def _tag_default_dict(value: defaultdict[Any, Any], walk: Walk, depth: int) -> object:
    """Keep the factory where it is a builtin type. Any other is code, and the value becomes a plain dict."""
    factory = value.default_factory
    name = _FACTORY_NAMES.get(factory) if factory is None or isinstance(factory, type) else None
    if name is None:
        return tag_dict(dict(value), walk, depth)
    return {"$defaultdict": [name, tag_dict(dict(value), walk, depth + 2)]}


@untagger("$defaultdict")
def _untag_default_dict(payload: list[Any], hint: object) -> defaultdict[Any, Any]:
    name, items = payload
    return defaultdict(_FACTORIES[name], untag_mapping(items, hint))
