"""JSON from the command line to the arguments of a workflow, by its annotations."""

from __future__ import annotations

import inspect
import re
from typing import Any

import msgspec

from outlast.codec.conversion import from_json
from outlast.core.errors import DecodingError, WrongUse
from outlast.core.functions import Definition


def json_value(text: str, what: str) -> Any:
    """Return the value of a JSON text. Raises WrongUse that says what a text on a command line is easily missing."""
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise WrongUse(f"{what} is nested too deep to be read") from None
    except msgspec.DecodeError as error:
        hint = "a text needs its quotes inside those of the shell: '\"text\"'"
        if re.search(r"\b(NaN|Infinity)\b", text):
            hint = "JSON has no NaN and no Infinity"
        raise WrongUse(f"{what} {text!r} is not JSON: {error}; {hint}") from None


def arguments_for(definition: Definition[..., Any], text: str | None) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments that a JSON array (positional) or object (by name) holds for a workflow or step.

    Each is converted to its parameter's annotation: dataclasses, pydantic models, dates and so on. Raises WrongUse that
    names the parameter.
    """
    given = [] if text is None else json_value(text, "ARGS")
    if not isinstance(given, list | dict):
        raise WrongUse(
            f"ARGS is a JSON array of arguments or an object of named ones, not {text}; one argument is '[{text}]'"
        )
    args, kwargs = (given, {}) if isinstance(given, list) else ([], given)
    signature = definition.signature
    if signature is None:
        return args, kwargs
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise WrongUse(f"{definition.name}{signature}: {error}") from None
    hints = _annotations(definition)
    for name, value in bound.arguments.items():
        if name not in hints:
            continue
        where = f"{definition.name}: argument {name!r}"
        match signature.parameters[name].kind:
            case inspect.Parameter.VAR_POSITIONAL:
                bound.arguments[name] = tuple(_converted(item, hints[name], where) for item in value)
            case inspect.Parameter.VAR_KEYWORD:
                bound.arguments[name] = {key: _converted(item, hints[name], where) for key, item in value.items()}
            case _:
                bound.arguments[name] = _converted(value, hints[name], where)
    return list(bound.args), dict(bound.kwargs)


def _annotations(definition: Definition[..., Any]) -> dict[str, Any]:
    try:
        return inspect.get_annotations(inspect.unwrap(definition.fn), eval_str=True)
    except Exception:  # noqa: BLE001 - an annotation may be anything; then the JSON stays as it is
        return {}


def _converted(value: Any, annotation: Any, where: str) -> Any:
    try:
        return from_json(value, annotation)
    except DecodingError as error:
        raise WrongUse(f"{where}: {error}") from None
