"""The verbs of checkpoints, as `verbs` has the others, and the rows that they are about.

A **thread** is a line of checkpoints under an id of the user's, in one or more namespaces. A **checkpoint** is a state
at one moment: what it holds of each channel is a **value**, stored once for each version of the channel, however many
checkpoints refer to it. **Pending writes** belong to a checkpoint: what tasks have done on the way to the next. What
bytes mean is told by the `type` beside them, and none of it is looked into here.

The last checkpoint that was put in a namespace is its **head**. That is told by the order of their commits and not by
their ids, in which two machines' clocks would have a say.

A value may be put together of **parts**: rows of the same channel whose version is `#` and the digest of their bytes,
so that what two versions have in common is stored once.

A verb with a `worker` is fenced as any other write of a run, whose thread bears the run's id. One without is refused
while there is a run of the thread's id that has not ended, which alone may write there.
"""

from __future__ import annotations

import msgspec

from outlast.stores.verbs import Answer, Verb

PART = "#"

Pairs = tuple[tuple[str, str], ...]


class CheckpointRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A checkpoint. `versions` are (channel, version), `labels` (name, text) by which it is found.

    `origin` names what made it, as far as that is known; `pk` grows with the order in which they were put.
    """

    thread: str
    ns: str
    id: str
    parent: str | None = None
    type: str = ""
    data: bytes = b""
    versions: Pairs = ()
    labels: Pairs = ()
    origin: str = ""
    pk: int = 0


class ChannelValue(msgspec.Struct, frozen=True, gc=False):
    """What a channel holds at a version, or a part of such values. `parts` are versions of parts, in order."""

    channel: str
    version: str
    type: str
    data: bytes
    parts: tuple[str, ...] = ()


class PendingWrite(msgspec.Struct, frozen=True, gc=False):
    """What a task wrote to a channel. `path` and `task` say in which order they come, and `idx` within one task."""

    task: str
    idx: int
    channel: str
    type: str
    data: bytes
    path: str = ""


class LoadedCheckpoint(msgspec.Struct, frozen=True):
    """A checkpoint with its values and parts, and its pending writes by (path, task, idx), from one snapshot.

    A listing that is `bare` leaves out both.
    """

    checkpoint: CheckpointRow
    values: tuple[ChannelValue, ...] = ()
    writes: tuple[PendingWrite, ...] = ()


class CheckpointFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which checkpoints a listing wants; None is any.

    `before` wants what was put before the checkpoint of that id; in namespaces where that is not, ids that are smaller:
    between them the order of commits says nothing, since each is put by itself. `labels` are (name, text), and with
    None as the text those without it.
    """

    thread: str | None = None
    ns: str | None = None
    id: str | None = None
    before: str | None = None
    labels: tuple[tuple[str, str | None], ...] = ()


# -- answers ----------------------------------------------------------------


class Superseded(Answer, frozen=True):
    """The checkpoint does not follow the head of its thread and namespace, which is `head`. Nothing was written."""

    head: str | None


class NoCheckpoint(Answer, frozen=True):
    """There is no such checkpoint. Nothing was written."""


class PartsMissing(Answer, frozen=True):
    """These parts of values are not there, nor were they given. Nothing was written."""

    parts: Pairs  # (channel, version)


# -- verbs --------------------------------------------------------------------


class PutCheckpoint(Verb, frozen=True, kw_only=True):
    """Put a checkpoint and the values that are new with it.

    -> Done | Superseded | PartsMissing | Fenced | Refused | Failed. With `follows` its parent has to be the head, and
    where it has none there must be no head. One of this id that is there keeps its place and gets what is said here.
    """

    checkpoint: CheckpointRow
    values: tuple[ChannelValue, ...] = ()
    follows: bool = False
    worker: str = ""
    run: int = 0
    claim: int = 0


class PutWrites(Verb, frozen=True, kw_only=True):
    """Add pending writes to a checkpoint. -> Done | NoCheckpoint | Fenced | Refused | Failed

    Of a task's writes with the same `idx` the first stays; one that is negative takes the place of the one before.
    """

    thread: str
    ns: str
    checkpoint: str
    writes: tuple[PendingWrite, ...]
    worker: str = ""
    run: int = 0
    claim: int = 0


class DeleteThread(Verb, frozen=True, kw_only=True):
    """Delete all there is of a thread, whoever owns it. One that is not there is deleted already. -> Done"""

    thread: str


class DeleteOrigins(Verb, frozen=True, kw_only=True):
    """Delete the checkpoints of these origins, and what they alone refer to, in all threads. -> Done"""

    origins: tuple[str, ...]


class CopyThread(Verb, frozen=True, kw_only=True):
    """Copy all there is of a thread into another, which has nothing but what was copied before. -> Done | Refused"""

    source: str
    target: str


class PruneThread(Verb, frozen=True, kw_only=True):
    """Delete these checkpoints, (ns, id), of a thread, and the values that nothing refers to any more. -> Done"""

    thread: str
    drop: Pairs
