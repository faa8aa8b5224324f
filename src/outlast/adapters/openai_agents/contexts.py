"""What a tool changes in the context object of its run: recorded with its result, and made again in a replay.

A program keeps in it what its tools share (`ctx.context.customer = ...`), and instructions and hooks read it. A replay
calls no tool whose result is recorded, so what a tool left there has to come from the record, too. Compared are the
fields of the object, or the keys of a dict; those that no journal can keep (a client, a connection) are left alone.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from outlast.codec.json_codec import JsonCodec
from outlast.core.errors import OutlastError

_codec = JsonCodec()


@dataclass(frozen=True)
class Changes:
    """What fields have been set to, and which are gone."""

    set: dict[str, Any]
    gone: list[str]

    def __bool__(self) -> bool:
        return bool(self.set or self.gone)

    def make(self, context: Any) -> None:
        """Make them again."""
        for name, value in self.set.items():
            if isinstance(context, dict):
                context[name] = value
            else:
                setattr(context, name, value)
        for name in self.gone:
            if isinstance(context, dict):
                context.pop(name, None)
            elif hasattr(context, name):
                delattr(context, name)


def seen(context: Any) -> dict[str, bytes]:
    """Return what a journal would keep of each field of a context."""
    kept = {}
    for name, value in _fields(context).items():
        try:
            kept[name] = _codec.encode(value)
        except (OutlastError, RuntimeError):  # or a tool in a thread is at it just now, which will see its own change
            continue
    return kept


def changes(before: dict[str, bytes], context: Any) -> Changes:
    """Return what has changed in a context since it was seen."""
    now, fields = seen(context), _fields(context)
    changed = {name: fields[name] for name, kept in now.items() if before.get(name) != kept}
    return Changes(changed, [name for name in before if name not in fields])


def _fields(context: Any) -> dict[str, Any]:
    if isinstance(context, dict):
        return {name: value for name, value in list(context.items()) if isinstance(name, str)}
    if isinstance(context, type):
        return {}
    fields = dict(getattr(context, "__dict__", {}))
    if dataclasses.is_dataclass(context):  # it may have slots
        fields.update(
            (f.name, getattr(context, f.name)) for f in dataclasses.fields(context) if hasattr(context, f.name)
        )
    return fields
