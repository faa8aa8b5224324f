"""The function that `confirm=` names: it is asked as `confirm(key, *args)` with the arguments of a step."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from outlast.core.errors import WrongUse

_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_ANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def check_confirm(step: str, fn: Callable[..., Any], confirm: object) -> None:
    """Raise WrongUse when `confirm` could not be asked about a step that is made of `fn`.

    It would be found out only when an attempt is in doubt, which may be the first time at 3 a.m.
    """
    if not callable(confirm):
        raise WrongUse(
            f"step {step}: confirm={confirm!r}: must be a function of the idempotency key and the step's arguments, "
            "which returns Happened(value), DidNotHappen() or Unknown()"
        )
    takes, given = _signature(confirm), _signature(fn)
    if takes is None or given is None:
        return
    whole = list(given.parameters.values())
    candidates = [whole, whole[1:]] if _may_have_self(fn) else [whole]
    if not any(_can_take(takes, parameters) for parameters in candidates):
        shown = str(given.replace(parameters=candidates[-1], return_annotation=inspect.Signature.empty))[1:-1]
        name = getattr(confirm, "__name__", repr(confirm))
        raise WrongUse(
            f"step {step}: confirm={name}{takes} cannot take the idempotency key and then the step's arguments: "
            f"write it as {name}({'key, ' + shown if shown else 'key'})"
        )


def arguments_for_confirm(
    fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Sequence[Any], dict[str, Any]]:
    """Return a step's arguments by place as far as they can be, however the call spelt them.

    So `confirm` may name its parameters as it likes.
    """
    signature = _signature(fn)
    if signature is None or not kwargs:
        return args, kwargs
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:  # the function is another by now than when it was called
        return args, kwargs
    return bound.args, bound.kwargs


def _can_take(takes: inspect.Signature, parameters: list[inspect.Parameter]) -> bool:
    if any(parameter.kind in _ANY for parameter in parameters):
        return _binds(takes, 1, {}) or bool(takes.parameters)  # how many there will be is not known
    places = [parameter for parameter in parameters if parameter.kind in _BY_PLACE]
    named = [parameter for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
    least = sum(parameter.default is inspect.Parameter.empty for parameter in places)
    required = {parameter.name for parameter in named if parameter.default is inspect.Parameter.empty}
    every = {parameter.name for parameter in named}
    return _binds(takes, 1 + least, dict.fromkeys(required)) and _binds(takes, 1 + len(places), dict.fromkeys(every))


def _binds(takes: inspect.Signature, places: int, named: dict[str, None]) -> bool:
    try:
        takes.bind(*[None] * places, **named)
    except TypeError:
        return False
    return True


def _signature(fn: Any) -> inspect.Signature | None:
    try:  # a decorator's wrapper is asked itself: it is what gets the arguments
        return inspect.signature(fn, follow_wrapped=False)
    except (TypeError, ValueError):
        return None


def _may_have_self(fn: Any) -> bool:
    """Tell whether a function stands in a class, so that its first parameter may be the object, which is not stored."""
    return "." in getattr(fn, "__qualname__", "").rpartition("<locals>.")[2]
