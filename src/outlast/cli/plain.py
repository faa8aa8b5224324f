"""Stored values as plain JSON, for people and other programs.

The codec's tags keep Python's types apart. Here they are taken off without
rebuilding anything: no class of the user's need be imported, and what cannot be read is
shown as it is. A reading tool never fails on one value.
"""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from outlast.cli.wording import with_where
from outlast.codec import Codec, JsonCodec
from outlast.core.frames import where_of
from outlast.core.records import Record, RunRow
from outlast.core.telling import error_tree, name_and_text

_JSON = JsonCodec(max_bytes=2**62)

_SECOND_PART = {  # tags whose payload is [name, value, ...]
    *("$attrs", "$dataclass", "$defaultdict", "$enum", "$namedtuple", "$purepath", "$pydantic", "$struct", "$subclass"),
    "$url",
}


@dataclass(frozen=True, slots=True)
class PlainError:
    """An error for people: its class (`CardDeclined`), what it says in one line, where it was raised, and its parts."""

    name: str
    text: str
    where: str
    tree: list[str]

    def line(self, length: int | None = None) -> str:
        """Return all of it in one line of at most about `length` characters (None: of any length)."""
        return with_where(f"{self.name}: {self.text}" if self.text else self.name, self.where, length, advice=True)


def readable_run(run: RunRow, codec: Codec) -> RunRow:
    """Return a run whose values are as `JsonCodec` would have stored them, so that they can be read here.

    What the codec cannot decode stays as it is.
    """
    if type(codec) is JsonCodec:
        return run
    return replace(
        run,
        input=_readable(run.input, codec, ok=True) or b"",
        result=_readable(run.result, codec, ok=True),
        error=_readable(run.error, codec, ok=False),
    )


def readable_record(record: Record, codec: Codec) -> Record:
    """Return a record whose value is as `JsonCodec` would have stored it. (Its arguments only serve to compare.)"""
    if type(codec) is JsonCodec:
        return record
    return replace(record, value=_readable(record.value, codec, ok=record.ok))


def readable(data: bytes, codec: Codec) -> bytes:
    """Return a value as `JsonCodec` would have stored it; what the codec cannot decode stays as it is."""
    return data if type(codec) is JsonCodec else _readable(data, codec, ok=True) or b""


def _readable(data: bytes | None, codec: Codec, *, ok: bool) -> bytes | None:
    if not data:
        return data
    try:
        return _JSON.encode(codec.decode(data)) if ok else _JSON.encode_error(codec.decode_error(data))
    except Exception:  # noqa: BLE001 - the user's codec, and classes that may not be here: it is shown as it is
        return data


def plain(data: bytes | None) -> Any:
    """Return an encoded value in JSON's own types; what is not JSON comes back as text."""
    if not data:
        return None
    try:
        return _without_tags(msgspec.json.decode(data))
    except (msgspec.DecodeError, RecursionError):
        return data.decode("utf-8", "backslashreplace")


def plain_error(data: bytes | None) -> PlainError:
    """Return what is shown of an encoded error. One whose class is not here is shown all the same."""
    value = plain(data)
    if isinstance(value, dict) and isinstance(value.get("type"), str):
        error = _JSON.decode_error(data or b"")
        return PlainError(*name_and_text(error), where_of(error), error_tree(error))
    text = value if isinstance(value, str) else json.dumps(value)
    return PlainError("Error", text, "", [f"Error: {text}"])


def one_line(data: bytes | None) -> str:
    """Return an encoded value as JSON in one line."""
    return json.dumps(plain(data), ensure_ascii=False)


def as_call(data: bytes | None, *, whole: bool = False) -> str:
    """Return encoded arguments as a call would have them: `("a chair", cents=700)`; long ones, that are a digest, so.

    `whole` says that they are surely `[positional, named]`, as those of a run. A step's are so where some are named.
    """
    value = plain(data)
    if not isinstance(value, list):
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    args, named = value, {}
    if len(value) == 2 and isinstance(value[0], list) and isinstance(value[1], dict) and (whole or value[1]):
        args, named = value
    parts = [json.dumps(item, ensure_ascii=False) for item in args]
    parts += [f"{name}={json.dumps(item, ensure_ascii=False)}" for name, item in named.items()]
    return f"({', '.join(parts)})"


def _without_tags(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_tags(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        (name,) = value
        if name.startswith("$"):
            try:
                return _untagged(name, value[name])
            except (TypeError, ValueError, LookupError):
                pass  # damaged, or newer than this version: shown with its tag
    return {name: _without_tags(item) for name, item in value.items()}


def _untagged(tag: str, payload: Any) -> Any:
    if tag in _SECOND_PART:
        return _without_tags(payload[1])
    match tag:
        case "$exception":
            return {"type": payload[0], "text": _without_tags(payload[1]["text"])}
        case "$dict":
            pairs = [(_without_tags(key), _without_tags(item)) for key, item in payload]
            if all(isinstance(key, str | int) for key, _ in pairs):
                return {str(key): item for key, item in pairs}
            return [list(pair) for pair in pairs]
        case "$deque":
            return _without_tags(payload[0])
        case "$int":
            return int(payload, 16)
        case "$datetime" | "$time" if isinstance(payload, list):
            return f"{payload[0]} {payload[1]}" if isinstance(payload[1], str) else payload[0]
        case "$timedelta":
            return dt.timedelta(*payload).total_seconds()
        case "$unset":
            return None
        case _:
            return _without_tags(payload)
