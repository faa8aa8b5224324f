"""How classes are named in stored values, and how they are found again: never by importing anything.

A class is named `module:qualname`. Decoding looks it up among the modules that are imported already, then among the
classes that the annotation of the value names. What it finds must be of the kind that the tag says (an enum, a
dataclass, ...), so that stored bytes can never name a function, or a class that does something when it is built.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import os
import sys
import types
import typing
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import msgspec

from outlast.codec.refusal import Refused, type_name
from outlast.core.errors import DecodingError


class Kind(enum.Enum):
    """What a class is, as far as storing its instances goes; the value is the tag's name."""

    ENUM = "$enum"
    EXCEPTION = "$exception"
    PYDANTIC = "$pydantic"
    STRUCT = "$struct"
    ATTRS = "$attrs"
    DATACLASS = "$dataclass"
    NAMEDTUPLE = "$namedtuple"
    SUBCLASS = "$subclass"
    URL = "$url"


# A subclass of one of these is rebuilt as itself; the order matters, since OrderedDict is a dict.
CONTAINERS: Final[tuple[type, ...]] = (OrderedDict, dict, list, frozenset, set, tuple, deque)
HEAP_TYPE: Final = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement, or by a C library that could as well
_MAIN: Final = ("__main__", "__mp_main__")


_T = TypeVar("_T")


def per_class(function: Callable[[type], _T]) -> Callable[[type], _T]:
    """Remember what the decorated function returned for each class."""
    return functools.lru_cache(maxsize=4096)(function)


@per_class
def kind_of(cls: type) -> Kind | None:
    """Return the kind of a class, None for one whose instances cannot be stored by naming it."""
    if issubclass(cls, enum.Enum):
        return Kind.ENUM
    if issubclass(cls, BaseException):
        return Kind.EXCEPTION
    layout = c_constructor(cls)
    if issubclass(cls, msgspec.Struct):
        return Kind.STRUCT
    if layout is object:
        pydantic = sys.modules.get("pydantic.main")  # imported already if `cls` is one of its models
        if pydantic is not None and issubclass(cls, pydantic.BaseModel):
            return Kind.PYDANTIC
        networks = sys.modules.get("pydantic.networks")
        if networks is not None and issubclass(cls, (networks._BaseUrl, networks._BaseMultiHostUrl)):
            return Kind.URL
        if hasattr(cls, "__attrs_attrs__"):
            return Kind.ATTRS
        return Kind.DATACLASS if dataclasses.is_dataclass(cls) else None
    if layout is tuple and isinstance(getattr(cls, "_fields", None), tuple):
        return Kind.NAMEDTUPLE
    return Kind.SUBCLASS if container_base(cls) is not None and cls not in CONTAINERS else None


def c_constructor(cls: type) -> type:
    """Return the first class in the MRO whose `__new__` is written in C.

    Its `__new__` makes an instance of `cls` without running any code of the user's.
    """
    for base in cls.__mro__:
        if isinstance(vars(base).get("__new__"), types.BuiltinFunctionType):
            return base
    return object


def container_base(cls: type) -> type | None:
    """Return the builtin container that `cls` extends in Python, None where another C class lies in between."""
    for base in cls.__mro__:
        if base in CONTAINERS:
            return base if c_constructor(cls) is c_constructor(base) else None
        if not base.__flags__ & HEAP_TYPE:  # defaultdict, struct sequences
            return None
    return None


# -- names -------------------------------------------------------------------


@per_class
def reference(cls: type) -> str:
    """Return the name under which `cls` is stored; raises `Refused` when it could not be found again by that name."""
    name = loose_reference(cls)
    if "<locals>" in name:
        raise Refused(
            f"type {type_name(cls)} cannot be stored: it is made inside a function, where no other process finds it. "
            "Move the class to the top of its module."
        )
    found = list(_imported(name))
    if not any(_same_name(other, cls) for other in found):
        raise Refused(
            f"type {type_name(cls)} cannot be stored: {name} does not name it, so that no process finds it again. "
            "Bind the class to its own name at the top of its module."
        )
    return name


def loose_reference(cls: type) -> str:
    """Return the name of `cls` without a look whether it can be found by it."""
    module, qualname = cls.__module__, cls.__qualname__
    if module in _MAIN:
        module = _main_name(qualname)
    return f"{module}:{qualname}"


def _same_name(other: type, cls: type) -> bool:
    # not identity: a module that was reloaded, or a notebook cell run again, has made the class anew
    return other is cls or (other.__module__ == cls.__module__ and other.__qualname__ == cls.__qualname__)


def _main_name(qualname: str) -> str:
    """Return the module name by which other processes know a class of the program that was started.

    `python agent.py` and `outlast worker agent` run the same file under two names. They take over each other's runs
    and compare each other's bytes, so the name that both know is stored.
    """
    alias = _main_alias()
    if alias is None:
        return "__main__"
    twin = sys.modules.get(alias)
    if twin is not None and twin is not sys.modules.get("__main__") and _walk(alias, qualname) is not None:
        return "__main__"  # the file was imported a second time: here the two classes are different ones
    return alias


def _main_alias() -> str | None:
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name)
    file = getattr(main, "__file__", None)
    if not isinstance(file, str):
        return None
    name = file.rpartition(os.sep)[2]
    stem = name.rpartition(".")[0] or name
    return stem if stem.isidentifier() and stem not in sys.stdlib_module_names else None


# -- finding -----------------------------------------------------------------


def find_class(name: object, kind: Kind, hint: object) -> type:
    """Return the class of this name and kind; raises `DecodingError` when it is not imported or of another kind."""
    if not isinstance(name, str) or ":" not in name:
        raise DecodingError(f"damaged {kind.value}: {name!r} is not a class's name")
    module, _, qualname = name.partition(":")
    cls = _walk(module, qualname)
    if cls is not None and kind_of(cls) is kind:
        return cls
    found = list(_imported(name))
    fitting = next((cls for cls in found if kind_of(cls) is kind), None) or _annotated(name, kind, hint)
    if fitting is not None:
        return fitting
    what = kind.name.lower()
    if found:
        raise DecodingError(f"{name} was stored as {what}, and the class of that name here is none: rename one of them")
    if module in sys.modules:
        problem = f"module {module} has no such {what}: was it moved or renamed?"
        advice = f"Keep {qualname.rpartition('.')[2]} where it was,"
    else:
        problem = f"module {module} is not imported in this process."
        advice = f"Import {module} in this process,"
    raise DecodingError(f"{name} cannot be rebuilt: {problem} {advice} or annotate where the value goes with the class")


def _imported(name: str) -> Iterator[type]:
    """Yield the classes of this name in modules that are imported, without waking any module's `__getattr__`."""
    module, _, qualname = name.partition(":")
    yield from _in_module("__main__" if module in _MAIN else module, qualname)
    if module == _main_alias():
        yield from _in_module("__main__", qualname)


def _in_module(module: str, qualname: str) -> Iterator[type]:
    path, bracket, arguments = qualname.partition("[")
    cls = _walk(module, path)
    if cls is not None and bracket:
        yield from _parametrized(cls, bracket + arguments)
    elif cls is not None:
        yield cls


_namespace_of: Final = type.__dict__["__dict__"].__get__  # past metaclasses that define `__dict__` or `__getattr__`


def _walk(module_name: str, qualname: str) -> type | None:
    """Follow `qualname` through the namespaces themselves; attribute access could run code, even import modules."""
    try:
        namespace: Any = object.__getattribute__(sys.modules[module_name], "__dict__")
    except (KeyError, AttributeError):
        return None
    found: object = None
    for part in qualname.split("."):
        found = namespace.get(part)
        if not isinstance(found, type):
            return None
        namespace = _namespace_of(found)
    return found if isinstance(found, type) else None


def _parametrized(generic: type, arguments: str) -> Iterator[type]:
    """Yield pydantic's class for `generic[arguments]`, if this process has made exactly one of that name."""
    made: list[type] = type.__subclasses__(generic)
    found = [
        cls
        for cls in made
        if (getattr(cls, "__pydantic_generic_metadata__", None) or {}).get("origin") is generic
        and cls.__name__.endswith(arguments)
    ]
    if len(found) == 1:
        yield found[0]


def _annotated(name: str, kind: Kind, hint: object) -> type | None:
    """Return the class of this name and kind that the annotation names, also when it lives in another module now."""
    _, _, qualname = name.partition(":")
    last = qualname.rpartition(".")[2]
    candidates = [cls for cls in _classes_in(hint, set()) if kind_of(cls) is kind]
    for key, wanted in (("__qualname__", qualname), ("__name__", last)):
        found = {cls for cls in candidates if getattr(cls, key) == wanted}
        if len(found) == 1:
            return found.pop()
    return None


def _classes_in(hint: Any, seen: set[int]) -> Iterator[type]:
    """Yield every class that an annotation names, in its arguments and in the fields of its classes."""
    if id(hint) in seen or hint is Any or hint is None or isinstance(hint, str):
        return
    seen.add(id(hint))
    if isinstance(hint, (list, tuple)):  # the parameters of Callable, the values of Literal
        parts: Iterator[Any] = iter(hint)
    elif typing.get_origin(hint) is not None:
        parts = iter((typing.get_origin(hint), *typing.get_args(hint)))
    elif isinstance(hint, type):
        yield hint
        parts = iter((*_field_types(hint), *hint.__bases__)) if kind_of(hint) is not None else iter(())
    elif isinstance(hint, enum.Enum):
        parts = iter((type(hint),))
    else:  # TypeVar, NewType, `type X = ...`
        parts = iter(getattr(hint, name, None) for name in ("__bound__", "__supertype__", "__value__"))
    for part in parts:
        yield from _classes_in(part, seen)


def _field_types(cls: type) -> list[Any]:
    try:
        return list(typing.get_type_hints(cls).values())
    except Exception:  # noqa: BLE001  # a name that is only imported for type checkers
        return [hint for hint in getattr(cls, "__annotations__", {}).values() if not isinstance(hint, str)]
