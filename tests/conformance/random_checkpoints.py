"""Checkpoints of threads, at random: put, superseded, written to, copied, pruned and deleted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule
from msgspec.structs import replace

from outlast.stores.checkpoint_verbs import (
    ChannelValue,
    CheckpointFilter,
    CheckpointRow,
    CopyThread,
    DeleteOrigins,
    DeleteThread,
    LoadedCheckpoint,
    PendingWrite,
    PruneThread,
    PutCheckpoint,
    PutWrites,
)
from outlast.stores.protocol import Store
from tests.conformance.two_sides import NAMES, TwoSides, off, pks, seldom, workers

threads = st.sampled_from(["t", "u", NAMES[0]])  # the last is the id of a run, too
spaces = st.sampled_from(["", "sub"])
checkpoint_ids = st.sampled_from(["c1", "c2", "c3"])
parts = st.sampled_from([(), (), (), ("#1",), ("#1", "#2")])


class RandomCheckpoints(TwoSides):
    """The verbs of checkpoints."""

    @rule(
        thread=threads,
        ns=spaces,
        id=checkpoint_ids,
        fits=st.booleans(),
        follows=st.booleans(),
        version=st.sampled_from(["1", "2"]),
        named=parts,
        given=parts,
        owned=st.none() | st.tuples(pks, workers, off),
    )
    def put_checkpoint(
        self,
        thread: str,
        ns: str,
        id: str,
        fits: bool,
        follows: bool,
        version: str,
        named: tuple[str, ...],
        given: tuple[str, ...],
        owned: tuple[int, int, int] | None,
    ) -> None:
        head = self.memory.checkpoint(thread, ns)
        parent = head.checkpoint.id if head and fits else None
        values = [ChannelValue("x", version, "text", b"1", named), *(ChannelValue("x", p, "", b"p") for p in given)]
        row = CheckpointRow(
            thread=thread, ns=ns, id=id, parent=parent, versions=(("x", version), ("y", "1")),
            labels=(("source", version),), origin=f"run{version}",
        )  # fmt: skip
        self.batch.append(PutCheckpoint(checkpoint=row, values=tuple(values), follows=follows, **self._by(owned)))

    @rule(
        thread=threads,
        ns=spaces,
        id=checkpoint_ids,
        idx=st.sampled_from([-1, 0, 1]),
        data=st.sampled_from([b"1", b"2"]),
        owned=st.none() | st.tuples(pks, workers, off),
    )
    def put_writes(
        self, thread: str, ns: str, id: str, idx: int, data: bytes, owned: tuple[int, int, int] | None
    ) -> None:
        writes = (PendingWrite("task", idx, "x", "text", data, "path"), PendingWrite("task", 7, "y", "text", data))
        self.batch.append(PutWrites(thread=thread, ns=ns, checkpoint=id, writes=writes, **self._by(owned)))

    @rule(thread=threads, often=seldom)
    def delete_thread(self, thread: str, often: int) -> None:
        if not often:
            self.batch.append(DeleteThread(thread=thread))

    @rule(origin=st.sampled_from(["run1", "run2", ""]), often=seldom)
    def delete_origins(self, origin: str, often: int) -> None:
        if not often:
            self.batch.append(DeleteOrigins(origins=(origin, "other")))

    @rule(pair=st.permutations(["t", "u", NAMES[0]]))
    def copy_thread(self, pair: list[str]) -> None:
        self.batch.append(CopyThread(source=pair[0], target=pair[1]))

    @rule(thread=threads, drop=st.sets(st.tuples(spaces, checkpoint_ids), max_size=2))
    def prune_thread(self, thread: str, drop: set[tuple[str, str]]) -> None:
        self.batch.append(PruneThread(thread=thread, drop=tuple(sorted(drop))))

    def _by(self, owned: tuple[int, int, int] | None) -> dict[str, Any]:
        return self._owner(self._run(owned[0]), *owned[1:]) if owned is not None else {}

    def _compare(self, store: Store) -> None:
        super()._compare(store)
        for wanted in (
            CheckpointFilter(),
            CheckpointFilter(thread="t", before="c2", labels=(("source", "1"),)),
            CheckpointFilter(ns="sub", id="c1", labels=(("other", None),)),
        ):
            assert _told(store.checkpoints(wanted)) == _told(self.memory.checkpoints(wanted))
        for place in (("u", ""), ("t", "sub", "c3")):
            mine, reference = store.checkpoint(*place), self.memory.checkpoint(*place)
            assert _told([mine] if mine else []) == _told([reference] if reference else [])
        assert store.thread_sizes("t") == self.memory.thread_sizes("t")


def _told(found: Sequence[LoadedCheckpoint]) -> list[LoadedCheckpoint]:
    """Return checkpoints without their keys, which may have gaps after a rollback."""
    return [
        replace(one, checkpoint=replace(one.checkpoint, pk=0), values=tuple(sorted(one.values, key=_place)))
        for one in found
    ]


def _place(value: ChannelValue) -> tuple[str, str]:
    return value.channel, value.version
