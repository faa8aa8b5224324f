"""Checkpoints as the stores keep them, and as LangGraph has them.

A long list, such as the messages of a conversation, grows by a few items each turn, and its channel gets a new version
each time. So it is stored in parts: every BLOCK items are one, and those after the last block one each. The versions of
a thread that grows thus have most of their parts in common, and each item is stored twice at most.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, cast

import msgspec
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from outlast.adapters.langgraph.following import ReadId
from outlast.core.arguments import bad_text
from outlast.core.errors import WrongUse
from outlast.stores.checkpoint_verbs import (
    PART,
    ChannelValue,
    CheckpointRow,
    LoadedCheckpoint,
    Pairs,
    PendingWrite,
)

LIST = "outlast:list"
"""The type of a value that is a list in parts."""
BLOCK = 32
WORTH_IT_BYTES = 2_000
"""A list of fewer bytes is stored whole."""
DIGEST_BYTES = 16

_items = msgspec.msgpack.Decoder(list[tuple[str, bytes]])
Versions = Mapping[str, str | int | float]


def checkpoint_row(
    serde: SerializerProtocol,
    place: tuple[str, str],
    parent: str | None,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
) -> CheckpointRow:
    """Return the row of a checkpoint, whose values are stored beside it. `place` is (thread, namespace)."""
    thread, ns = place
    state = {key: value for key, value in checkpoint.items() if key != "channel_values"}
    kind, data = serde.dumps_typed({"checkpoint": state, "metadata": dict(metadata)})
    return CheckpointRow(
        thread=thread,
        ns=ns,
        id=str(checkpoint["id"]),
        parent=parent,
        type=kind,
        data=data,
        versions=pairs_of(checkpoint["channel_versions"]),
        labels=labels_of(metadata),
        origin=str(metadata.get("run_id", "")),
    )


def pairs_of(versions: Versions) -> Pairs:
    """Return the versions of channels as a row has them."""
    return tuple((channel, str(version)) for channel, version in versions.items())


def labels_of(metadata: Mapping[str, Any]) -> Pairs:
    """Return what of the metadata a listing can be asked for."""
    texts = ((name, label_text(value)) for name, value in metadata.items())
    return tuple((name, text) for name, text in texts if text is not None and not bad_name(name))


def label_text(value: Any) -> str | None:
    """Return the text by which a value of metadata is found: two that are equal have the same. None: it has none."""
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    try:
        text = msgspec.json.encode(value, order="deterministic").decode()
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return None
    return None if bad_text(text) else text


def wanted_labels(filter: Mapping[str, Any] | None) -> tuple[tuple[str, str | None], ...]:
    """Return the labels that a filter asks for. Raises WrongUse for a value that cannot be one."""
    found = []
    for name, value in (filter or {}).items():
        text = label_text(value)
        if bad_name(name) or (text is None and value is not None):
            raise WrongUse(f"checkpoints cannot be filtered by {name!r} = {value!r}: give a name and plain JSON")
        found.append((name, text))
    return tuple(found)


def bad_name(name: Any) -> bool:
    """Tell whether metadata cannot be found by this name."""
    return not isinstance(name, str) or bad_text(name) is not None


# -- values -------------------------------------------------------------------


def value_rows(
    serde: SerializerProtocol, values: Mapping[str, Any], versions: ChannelVersions
) -> Iterator[tuple[ChannelValue, list[ChannelValue]]]:
    """Yield the row of each value that is new, and the parts that it is made of."""
    for channel, version in versions.items():
        if channel in values:
            value = values[channel]
            in_parts = _list_rows(serde, channel, str(version), value)
            if in_parts is not None:
                yield in_parts
            else:
                yield ChannelValue(channel, str(version), *serde.dumps_typed(value)), []


def _list_rows(
    serde: SerializerProtocol, channel: str, version: str, value: Any
) -> tuple[ChannelValue, list[ChannelValue]] | None:
    """Return a list in parts, None where it is none, or is not worth it."""
    if type(value) is not list or len(value) < 2:
        return None
    items = [serde.dumps_typed(item) for item in value]
    if sum(len(data) for _, data in items) < WORTH_IT_BYTES:
        return None
    whole = len(items) - len(items) % BLOCK
    blocks = [items[at : at + BLOCK] for at in range(0, whole, BLOCK)] + [[item] for item in items[whole:]]
    parts = [_part(channel, block) for block in blocks]
    return ChannelValue(channel, version, LIST, b"", tuple(part.version for part in parts)), parts


def _part(channel: str, items: Sequence[tuple[str, bytes]]) -> ChannelValue:
    data = msgspec.msgpack.encode(items)
    return ChannelValue(channel, f"{PART}{blake2b(data, digest_size=DIGEST_BYTES).hexdigest()}", "", data)


def write_rows(
    serde: SerializerProtocol, writes: Iterable[tuple[str, Any]], task: str, path: str
) -> tuple[PendingWrite, ...]:
    """Return the rows of a task's writes."""
    return tuple(
        PendingWrite(task, WRITES_IDX_MAP.get(channel, place), channel, *serde.dumps_typed(value), path)
        for place, (channel, value) in enumerate(writes)
    )


# -- and back ------------------------------------------------------------------


def checkpoint_tuple(serde: SerializerProtocol, loaded: LoadedCheckpoint, *, latest: bool) -> CheckpointTuple:
    """Return a checkpoint as LangGraph has it. `latest` tells whether it was asked for as the head of its thread."""
    row = loaded.checkpoint
    state = serde.loads_typed((row.type, row.data))
    return CheckpointTuple(
        config=config_of(row, ReadId(row.id, latest=latest)),
        checkpoint=cast("Checkpoint", state["checkpoint"] | {"channel_values": dict(values_of(serde, loaded.values))}),
        metadata=state["metadata"],
        parent_config=config_of(row, ReadId(row.parent, latest=False)) if row.parent else None,
        pending_writes=[
            (write.task, write.channel, serde.loads_typed((write.type, write.data))) for write in loaded.writes
        ],
    )


def metadata_of(serde: SerializerProtocol, row: CheckpointRow) -> dict[str, Any]:
    """Return the metadata of a checkpoint."""
    found: dict[str, Any] = serde.loads_typed((row.type, row.data))["metadata"]
    return found


def config_of(row: CheckpointRow, id: str) -> RunnableConfig:
    """Return the config that names a checkpoint of the same thread and namespace."""
    return {"configurable": {"thread_id": row.thread, "checkpoint_ns": row.ns, "checkpoint_id": id}}


def values_of(serde: SerializerProtocol, rows: Collection[ChannelValue]) -> Iterator[tuple[str, Any]]:
    """Yield what each channel holds. The parts of values are among the rows."""
    parts = {(row.channel, row.version): row.data for row in rows if row.version.startswith(PART)}
    for row in rows:
        if row.type == LIST:
            items = (item for part in row.parts for item in _items.decode(parts[row.channel, part]))
            yield row.channel, [serde.loads_typed(item) for item in items]
        elif not row.version.startswith(PART):
            yield row.channel, serde.loads_typed((row.type, row.data))
