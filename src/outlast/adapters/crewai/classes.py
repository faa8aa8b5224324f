"""Copies of the framework's objects, in which some methods are others.

The class of a copy is a subclass of the object's own, of the same name, so whatever asks for its class gets the answer
that it would get. The user's own object is left as it is. A copy is made without running validators: they would make
connections, stores and listeners anew.
"""

from __future__ import annotations

import threading
from types import new_class
from typing import Any, TypeVar, cast

from pydantic import BaseModel, PrivateAttr

T = TypeVar("T", bound=BaseModel)

SAID = "_outlast"
"""The private attribute of a copy in which its methods find what was said of it."""

_BASE = "__outlast_base__"

_classes: dict[tuple[type[Any], type[Any]], type[Any]] = {}
_lock = threading.Lock()


def copied(
    of: T, behaviour: type[Any], said: Any, *, fields: dict[str, Any], privates: dict[str, Any] | None = None
) -> T:
    """Return a copy of an object with the methods of `behaviour`, these fields and these private attributes."""
    made: Any = object.__new__(_class_of(plain_class(type(of)), behaviour))  # `LLM.__new__` makes other objects
    hold = object.__setattr__
    hold(made, "__dict__", {**vars(of), **{name: value for name, value in fields.items() if name in vars(of)}})
    hold(made, "__pydantic_fields_set__", set(of.model_fields_set))
    hold(made, "__pydantic_extra__", None if of.__pydantic_extra__ is None else dict(of.__pydantic_extra__))
    before: dict[str, Any] = getattr(of, "__pydantic_private__", None) or {}
    anew = {name: value for name, value in (privates or {}).items() if name in before}
    hold(made, "__pydantic_private__", {**before, **anew, SAID: said})
    return cast("T", made)


def plain_class(cls: type[Any]) -> type[Any]:
    """Return the class that the user's object has, of which a copy has this one."""
    base: type[Any] = cls.__dict__.get(_BASE, cls)
    return base


def said_of(of: Any) -> Any:
    """Return what was said of a copy; None of any other object."""
    return getattr(of, SAID, None) if _BASE in vars(type(of)) else None


def _class_of(base: type[Any], behaviour: type[Any]) -> type[Any]:
    with _lock:
        if (base, behaviour) not in _classes:
            body = {SAID: PrivateAttr(default=None), _BASE: base, "__doc__": base.__doc__, "__module__": __name__}
            made = new_class(base.__name__, (behaviour, base), exec_body=lambda ns: ns.update(body))
            made.__module__ = base.__module__  # only now: the framework registers classes of tools by their names
            made.__qualname__ = base.__qualname__
            _classes[base, behaviour] = made
        return _classes[base, behaviour]
