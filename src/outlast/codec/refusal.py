"""Why a value cannot be stored: the path to the bad part, its type, and what to do about it."""

from __future__ import annotations

import re
import reprlib
import types
from typing import Final

_LONGEST_PATH: Final = 12  # segments shown in full; a value that contains itself would otherwise print 300 of them


class Refused(Exception):
    """Raised inside the codec when a part cannot be stored; on its way out it gathers the path to that part."""

    def __init__(self, reason: str, *, too_deep: bool = False, too_large: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.too_deep = too_deep
        self.too_large = too_large
        self._trail: list[tuple[str, int]] = []

    def within(self, segment: str, container: object) -> None:
        """Note that the bad part lies at `segment` of `container`."""
        self._trail.append((segment, id(container)))

    def message(self) -> str:
        """Return the text for `EncodingError`, which starts with the path."""
        trail = self._trail[::-1]
        if self.too_deep:
            first_seen: dict[int, int] = {}
            for depth, (_, container) in enumerate(trail):
                if container in first_seen:
                    inner, outer = _path(trail[:depth]), _path(trail[: first_seen[container]])
                    return f"{inner}: refers back to {outer}, so it would have no end. Store an id in its place."
                first_seen[container] = depth
        return f"{_path(trail)}: {self.reason}"


def attribute(name: object) -> str:
    """Return the path segment of a field or a dict key."""
    if type(name) is str:
        return f".{name}" if name.isidentifier() else f"[{name!r}]"
    return f"[{short(name)}]"


def short(value: object) -> str:
    """Return at most 40 characters of the repr of `value`; never raises."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  # user code
        text = type_name(type(value))
    return text if len(text) <= 40 else text[:39] + "…"


def text_of(value: object) -> str:
    """Return the text that stands for a value which cannot be stored; never raises.

    It is the same in every process: sets are sorted and addresses left out. Long ones are cut.
    """
    try:
        return _ADDRESS.sub(" at 0x…", _reprs.repr(value))
    except BaseException as error:  # noqa: BLE001  # user code; what it raises must not end the caller
        return f"<{type_name(type(value))}, whose repr() raised {type(error).__name__}>"


_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")
_reprs: Final = reprlib.Repr()
_reprs.maxstring = _reprs.maxother = _reprs.maxlong = 1000
_reprs.maxlist = _reprs.maxtuple = _reprs.maxdict = _reprs.maxset = _reprs.maxfrozenset = _reprs.maxdeque = 20


def type_name(cls: type) -> str:
    """Return `module.qualname`, without the module for builtins."""
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def unsupported(value: object) -> Refused:
    """Return the refusal of a value whose type has no stored form."""
    return Refused(f"type {type_name(type(value))} cannot be stored. {_advice(value)}")


def _path(trail: list[tuple[str, int]]) -> str:
    segments = [segment for segment, _ in trail]
    if len(segments) > _LONGEST_PATH:
        segments = [*segments[:6], "…", *segments[-4:]]
    return "$" + "".join(segments)


_CODE: Final = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.ModuleType, type)
_VIEWS: Final[tuple[type, ...]] = (
    type({}.keys()),
    type({}.values()),
    type({}.items()),
    types.MappingProxyType,
    memoryview,
)


def _advice(value: object) -> str:
    cls = type(value)
    if getattr(value, "_outlast_call", False):
        return "It is a call that was not made yet: write `await` before it (in a sync workflow: `.result()` after it)."
    module = cls.__module__.partition(".")[0]
    if isinstance(value, _CODE):
        return "Code is not data: store its name, and look it up where it is used."
    if isinstance(value, types.CoroutineType):
        return "Await it, and store what it gives."
    if isinstance(value, _VIEWS):
        return "It is a view of something else: store list(...), dict(...) or bytes(...) of it."
    if hasattr(cls, "__enter__") or module in {"_thread", "threading", "socket", "asyncio", "_asyncio", "_io"}:
        return "It lives in this process only: make it inside the step that needs it, and store plain data."
    if hasattr(cls, "__next__") or hasattr(cls, "__anext__"):
        return "It can be read only once: store list(...) of it."
    if module in {"numpy", "pandas", "torch", "polars"}:
        return "Store plain values, for example x.tolist() or x.to_dict()."
    return "Use a dataclass, an attrs, pydantic or msgspec class, or plain data."
