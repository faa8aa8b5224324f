"""Objects that are the same as one of the framework's, but for a method.

A tool is handed to the framework in a likeness: its class is a subclass of the tool's own, so whatever asks for its
class gets the answer that it would get, and both have one state, so that nothing that either does to it is missed by
the other. The user's own object is left as it is: who runs it outside of a workflow sees nothing of Outlast.
"""

from __future__ import annotations

from types import new_class
from typing import Any, TypeVar, cast

T = TypeVar("T")


def likeness(of: T, behaviour: type[Any], said: Any) -> T:
    """Return an object like this one, with the methods of `behaviour`, which find in `outlast_said` what is `said`."""
    made: Any = object.__new__(_class_of(type(of), behaviour))
    made.__dict__ = vars(of)
    made.outlast_said = said
    return cast("T", made)


_classes: dict[tuple[type[Any], type[Any]], type[Any]] = {}


def _class_of(base: type[Any], behaviour: type[Any]) -> type[Any]:
    if (base, behaviour) not in _classes:
        body = {"__slots__": ("outlast_said",), "__module__": base.__module__, "__doc__": base.__doc__}
        _classes[base, behaviour] = new_class(base.__name__, (behaviour, base), exec_body=lambda ns: ns.update(body))
    return _classes[base, behaviour]
