"""What a model is asked, as a digest that another process computes alike: by it calls are told apart.

What a value prints as may hold the address of an object, the order of a set, or a secret. So JSON is part of a digest
as it is, what is made of JSON (dataclasses, pydantic models, sets, tools) by what it is made of, and all else by what
kind of thing it is. Two calls that differ in such a thing alone count as the same question, asked twice.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import functools
import hashlib
import json
import pathlib
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.language_models.base import BaseLanguageModel
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables.base import RunnableBinding
from langchain_core.tools import BaseTool
from pydantic import BaseModel
from pydantic.types import SecretBytes, SecretStr

DRAWN = frozenset({"id", "response_metadata", "usage_metadata", "artifact"})
"""What messages that say the same may differ in. (An artifact is kept beside a message, and not sent to a model.)"""

OF_ITS_PROCESS = re.compile(
    r"key|secret|passw|credential|header|auth|cookie|(^|_)token$|url|base$|endpoint|proxy|retries|timeout",
    re.IGNORECASE,
)
"""Parameters of a model that do not say which one it is: secrets, and how this process reaches it."""

_TEXTS = (dt.date, dt.time, dt.timedelta, decimal.Decimal, pathlib.PurePath, uuid.UUID)
_DEEPEST = 50


def digest_of(model: Any, messages: Sequence[BaseMessage], *settings: Any) -> str:
    """Return what tells a call of a model from others: which model is asked what, and how."""
    asked = [_identity(model), _told(messages), *(_told(one) for one in settings)]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:8]


def kind_of(value: Any) -> str:
    """Tell a thing by what it is: how it prints may be another text each time."""
    return str(getattr(value, "__qualname__", type(value).__qualname__))


def _identity(model: Any) -> Any:
    """Return what says which model it is; what it is made of otherwise may be another thing in each process."""
    if isinstance(model, RunnableBinding):
        return [_identity(model.bound), _told(dict(model.kwargs))]
    named = _plain([getattr(model, "model_name", None), getattr(model, "model", None)])
    if not isinstance(model, BaseChatModel):
        return [kind_of(model), named]
    if type(model)._identifying_params is BaseLanguageModel._identifying_params:  # its maker names none
        fields = type(model).model_fields.keys() - BaseChatModel.model_fields.keys()
        given = {name: getattr(model, name, None) for name in fields}
    else:
        given = dict(model._identifying_params)
    return [kind_of(model), named, _plain(given)]


def _plain(value: Any) -> Any:
    """Return what is JSON in a parameter, without secrets."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return _told(value)
    if isinstance(value, Mapping):
        return {
            name: _plain(part)
            for name, part in value.items()
            if isinstance(name, str) and not OF_ITS_PROCESS.search(name)
        }
    return [_plain(part) for part in value] if isinstance(value, (list, tuple)) else None


def _told(value: Any, depth: int = 0) -> Any:
    """Return a value as JSON that is the same in another process."""
    if isinstance(value, enum.Enum):
        return [kind_of(type(value)), value.name]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, _TEXTS):
        return [kind_of(type(value)), str(value)]
    if isinstance(value, (bytes, bytearray)):
        return ["bytes", hashlib.sha256(value).hexdigest()]
    if depth > _DEEPEST or isinstance(value, (SecretStr, SecretBytes)):
        return kind_of(value)
    within = functools.partial(_told, depth=depth + 1)
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else json.dumps(within(key)): within(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [within(part) for part in value]
    if isinstance(value, (set, frozenset)):
        return ["set", *sorted(json.dumps(within(part), sort_keys=True) for part in value)]
    if isinstance(value, type):
        return [kind_of(value), _schema(value)]
    if isinstance(value, functools.partial):
        return [within(value.func), within(value.args), within(value.keywords)]
    return [kind_of(value), within(_parts(value))]


def _parts(value: Any) -> dict[str, Any]:
    """Return what an object is made of, as its class declares it; nothing of one whose class does not."""
    if isinstance(value, BaseMessage):
        parts = {**{name: getattr(value, name, None) for name in type(value).model_fields}, **(value.model_extra or {})}
        return {name: part for name, part in parts.items() if name not in DRAWN}
    if isinstance(value, BaseTool):
        return {"name": value.name, "description": value.description, "args": _schema(value.args_schema)}
    if isinstance(value, BaseModel):
        return {name: getattr(value, name, None) for name in type(value).model_fields}
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value) if field.repr}
    return {}


def _schema(of: Any) -> Any:
    """Return the JSON schema of a pydantic model; nothing of a class that has none."""
    if isinstance(of, Mapping):
        return _told(of)
    if not (isinstance(of, type) and issubclass(of, BaseModel)):
        return None
    try:
        return _told(of.model_json_schema())
    except Exception:  # noqa: BLE001 - of arguments that are no JSON, which pydantic and its users tell in any way
        return sorted(of.model_fields)
