"""What every store decides alike of checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from outlast.stores.checkpoint_verbs import PART, ChannelValue, CheckpointRow, Pairs, PutCheckpoint, PutWrites
from outlast.stores.rows import Row
from outlast.stores.verbs import Refused

CHECKPOINT_COLUMNS = "thread, ns, id, parent, type, data, versions, labels, origin, pk"
VALUE_COLUMNS = "channel, version, type, data, parts"
WRITE_COLUMNS = "task, idx, channel, type, data, path"

Key = tuple[str, str, str]
"""Of a value: (ns, channel, version)."""

_pairs = msgspec.json.Decoder(dict[str, str])
_parts = msgspec.json.Decoder(tuple[str, ...])


def checkpoint_row(row: Row) -> CheckpointRow:
    """Make a checkpoint of a row of CHECKPOINT_COLUMNS."""
    fields = dict(zip(CheckpointRow.__struct_fields__, row, strict=True))
    return CheckpointRow(**fields | {"versions": as_pairs(fields["versions"]), "labels": as_pairs(fields["labels"])})


def as_pairs(text: str | bytes) -> Pairs:
    """Return the pairs that a column of JSON holds, by name."""
    return tuple(sorted(_pairs.decode(text).items()))


def pairs_text(pairs: Pairs) -> str:
    """Return the text of a column of pairs."""
    return msgspec.json.encode(dict(pairs)).decode()


def channel_value(row: Row) -> ChannelValue:
    """Make a value of a row of VALUE_COLUMNS."""
    channel, version, kind, data, parts = row
    return ChannelValue(channel, version, kind, data, decode_parts(parts))


def decode_parts(text: str) -> tuple[str, ...]:
    """Return the versions that a column `parts` holds."""
    return _parts.decode(text) if text else ()


def parts_text(parts: tuple[str, ...]) -> str:
    """Return the text of the column `parts`."""
    return msgspec.json.encode(parts).decode() if parts else ""


def new_values(verb: PutCheckpoint) -> tuple[list[ChannelValue], list[ChannelValue]]:
    """Return the parts and the values that come with a checkpoint, none twice."""
    found = {(value.channel, value.version): value for value in verb.values}
    parts = [value for value in found.values() if value.version.startswith(PART)]
    return parts, [value for value in found.values() if not value.version.startswith(PART)]


def needed_parts(verb: PutCheckpoint) -> Pairs:
    """Return the parts, as (channel, version), that have to be there already."""
    given = {(value.channel, value.version) for value in verb.values}
    needed = {(value.channel, part) for value in verb.values for part in value.parts}
    return tuple(sorted(needed - given))


def unused(checkpoints: Iterable[tuple[str, Pairs]], values: Mapping[Key, tuple[str, ...]]) -> list[Key]:
    """Return which values of a thread no checkpoint refers to any more.

    `checkpoints` are (ns, versions) of those that there are, `values` have the parts of each value.
    """
    used = {(ns, channel, version) for ns, versions in checkpoints for channel, version in versions}
    used |= {(ns, channel, part) for ns, channel, version in used for part in values.get((ns, channel, version), ())}
    return [key for key in values if key not in used]


def owned_by_a_run(thread: str) -> str:
    """Say why somebody from outside may not write to a thread."""
    return f"thread {thread!r} belongs to the run of that id, which has not ended; what writes there is that run alone"


def has_content(target: str) -> Refused:
    """Say why a thread cannot be copied."""
    return Refused(f"thread {target!r} has checkpoints of its own; copy to a thread that is new")


def thread_of(verb: PutCheckpoint | PutWrites) -> str:
    """Return the thread that a verb writes to."""
    return verb.checkpoint.thread if isinstance(verb, PutCheckpoint) else verb.thread
