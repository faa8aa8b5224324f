"""The checkpointer: what LangGraph asks of one, on Outlast's stores."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from outlast import sync
from outlast.adapters.langgraph.clients import StoreClient
from outlast.adapters.langgraph.deltas import delta_history
from outlast.adapters.langgraph.following import has_to_follow, run_of
from outlast.adapters.langgraph.growth import Growth
from outlast.adapters.langgraph.parts import StoredParts
from outlast.adapters.langgraph.pruning import heads_of, what_to_drop
from outlast.adapters.langgraph.rows import checkpoint_row, checkpoint_tuple, value_rows, wanted_labels, write_rows
from outlast.adapters.langgraph.threads import thread_key, thread_of
from outlast.adapters.langgraph.writing import Writing
from outlast.core.errors import WrongUse
from outlast.runtime.app import App
from outlast.stores.checkpoint_verbs import (
    ChannelValue,
    CheckpointFilter,
    CopyThread,
    DeleteOrigins,
    DeleteThread,
    LoadedCheckpoint,
    PutCheckpoint,
    PutWrites,
)

PAGE = 20


class Saver(BaseCheckpointSaver[str]):
    """A LangGraph checkpointer that keeps checkpoints in an Outlast store, beside the runs.

    - `app`: an open `outlast.App` or `outlast.sync.App`; or the URL of a store (by default `OUTLAST_URL`, else
      `./outlast.db`), which is opened when it is first used and closed by `close`, `with` or `async with`.
    - `serde`: LangGraph's serializer; by default its own, without pickle.

    Its methods are those of LangGraph's checkpointers, each once for threads and once for event loops, and may be used
    from any of them. Each returns when what it wrote is committed. Raises ThreadConflict where another writer has put a
    checkpoint since this one read the thread; ThreadOwned where a run of Outlast owns it; StoreError.
    """

    def __init__(
        self,
        app: App | sync.App | str | os.PathLike[str] | None = None,
        *,
        serde: SerializerProtocol | None = None,
    ) -> None:
        super().__init__(serde=serde)
        self._client = StoreClient(app)
        self._writing = Writing()
        self._stored = StoredParts()
        self._growth = Growth()

    @classmethod
    def _of_run(cls, client: StoreClient, writing: Writing, serde: SerializerProtocol | None) -> Saver:
        """Return the checkpointer of a run, through its worker."""
        made = cls(serde=serde)
        made._client, made._writing = client, writing
        return made

    def __repr__(self) -> str:
        return f"<Saver {self._client.shown}>"

    def __enter__(self) -> Saver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Saver:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Close the store, if it was opened here. Used again, it is opened again."""
        self._client.close()

    # -- reading ---------------------------------------------------------------------

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that a config names, or the head of its thread."""
        thread, ns, named = _named(config)
        return self._tuple(self._client.read(lambda store: store.checkpoint(thread, ns, named)), latest=named is None)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See `get_tuple`."""
        thread, ns, named = _named(config)
        loaded = await self._client.read_aside(lambda store: store.checkpoint(thread, ns, named))
        return self._tuple(loaded, latest=named is None)

    def _tuple(self, loaded: LoadedCheckpoint | None, *, latest: bool) -> CheckpointTuple | None:
        return checkpoint_tuple(self.serde, loaded, latest=latest) if loaded is not None else None

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, those first that were put last. `filter` has metadata that they have."""
        for page in _Pages(_wanted(config, filter, before), limit):
            found = self._client.read(page.ask)
            yield from (checkpoint_tuple(self.serde, one, latest=False) for one in page.take(found))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """See `list`."""
        for page in _Pages(_wanted(config, filter, before), limit):
            for one in page.take(await self._client.read_aside(page.ask)):
                yield checkpoint_tuple(self.serde, one, latest=False)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return what delta channels are rebuilt from at the checkpoint that a config names."""
        place = _named(config)
        return self._client.read(lambda store: delta_history(store, self.serde, place, channels))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """See `get_delta_channel_history`."""
        place = _named(config)
        return await self._client.read_aside(lambda store: delta_history(store, self.serde, place, channels))

    async def aheads(self, thread_id: str) -> Sequence[CheckpointTuple]:
        """Return the latest checkpoint of each namespace of a thread."""
        thread = thread_key(thread_id)
        heads = await self._client.read_aside(lambda store: heads_of(store, thread))
        return [checkpoint_tuple(self.serde, head, latest=True) for head in heads]

    def sizes(self, thread_id: str) -> dict[str, int]:
        """Return how many bytes are stored of each channel of a thread, in all its checkpoints together."""
        thread = thread_key(thread_id)
        return self._client.read(lambda store: store.thread_sizes(thread))

    async def asizes(self, thread_id: str) -> dict[str, int]:
        """See `sizes`."""
        thread = thread_key(thread_id)
        return await self._client.read_aside(lambda store: store.thread_sizes(thread))

    # -- writing ---------------------------------------------------------------------

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Commit a checkpoint, and return the config that names it."""
        verb, parts = self._checkpoint(config, checkpoint, metadata, new_versions)
        self._client.wait(lambda app: self._writing.put(app, verb, parts, run_of(config["configurable"])))
        return self._put(verb)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """See `put`."""
        verb, parts = self._checkpoint(config, checkpoint, metadata, new_versions)
        await self._client.run(lambda app: self._writing.put(app, verb, parts, run_of(config["configurable"])))
        return self._put(verb)

    def _checkpoint(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> tuple[PutCheckpoint, tuple[ChannelValue, ...]]:
        """Return the verb, and the parts of its values that the store is thought to have."""
        configurable = config.get("configurable", {})
        thread, ns = thread_of(config), configurable.get("checkpoint_ns") or ""
        parent = str(configurable.get("checkpoint_id") or "") or None
        told = get_checkpoint_metadata(config, metadata)
        row = checkpoint_row(self.serde, (thread, ns), parent, checkpoint, told)
        rows = list(value_rows(self.serde, checkpoint["channel_values"], new_versions))
        self._growth.see(row, rows)
        new, known = self._stored.split(row, rows)
        return PutCheckpoint(checkpoint=row, values=new, follows=has_to_follow(configurable)), known

    def _put(self, verb: PutCheckpoint) -> RunnableConfig:
        row = verb.checkpoint
        self._stored.keep(verb)
        return {"configurable": {"thread_id": row.thread, "checkpoint_ns": row.ns, "checkpoint_id": row.id}}

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Commit what a task has written on the way from a checkpoint to the next."""
        verb = self._writes(config, writes, task_id, task_path)
        self._client.wait(lambda app: self._writing.put_writes(app, verb, run_of(config["configurable"])))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """See `put_writes`."""
        verb = self._writes(config, writes, task_id, task_path)
        await self._client.run(lambda app: self._writing.put_writes(app, verb, run_of(config["configurable"])))

    def _writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> PutWrites:
        thread, ns, named = _named(config)
        if named is None:
            raise WrongUse("writes belong to a checkpoint: their config has a `checkpoint_id`")
        rows = write_rows(self.serde, writes, task_id, task_path)
        return PutWrites(thread=thread, ns=ns, checkpoint=named, writes=rows)

    # -- whole threads -----------------------------------------------------------------

    def delete_thread(self, thread_id: str) -> None:
        """Delete all there is of a thread. A graph that is running on it ends with ThreadConflict."""
        verb = DeleteThread(thread=thread_key(thread_id))
        self._client.wait(lambda app: app.ask(verb))

    async def adelete_thread(self, thread_id: str) -> None:
        """See `delete_thread`."""
        verb = DeleteThread(thread=thread_key(thread_id))
        await self._client.run(lambda app: app.ask(verb))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints that these runs of LangGraph have made, by the `run_id` of their metadata."""
        verb = DeleteOrigins(origins=tuple(map(str, run_ids)))
        self._client.wait(lambda app: app.ask(verb))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """See `delete_for_runs`."""
        verb = DeleteOrigins(origins=tuple(map(str, run_ids)))
        await self._client.run(lambda app: app.ask(verb))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all there is of a thread to one that is new."""
        verb = CopyThread(source=thread_key(source_thread_id), target=thread_key(target_thread_id))
        self._client.wait(lambda app: self._writing.copy(app, verb))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """See `copy_thread`."""
        verb = CopyThread(source=thread_key(source_thread_id), target=thread_key(target_thread_id))
        await self._client.run(lambda app: self._writing.copy(app, verb))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete what threads do not need to go on: all but the latest checkpoints, or with `"delete"` all.

        Of a delta channel what its latest value is made of stays, too. Space on the disk is given back.
        """
        for thread in _pruned(thread_ids, strategy):
            if strategy == "delete":
                self.delete_thread(thread)
            else:
                self._keep_latest(thread)

    def _keep_latest(self, thread: str) -> None:
        verb = self._client.read(lambda store: what_to_drop(store, self.serde, thread))
        self._client.wait(lambda app: app.ask(verb))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """See `prune`."""
        await asyncio.to_thread(self.prune, thread_ids, strategy=strategy)

    def get_next_version(self, current: str | None, channel: None) -> str:
        """Return the version of a channel that comes after another: one that no branch of the thread has."""
        last = 0 if current is None else int(str(current).partition(".")[0])
        return f"{last + 1:010}.{secrets.token_hex(6)}"


class _Pages:
    """The pages of a listing, each of which is told what was found before the next is asked for."""

    def __init__(self, wanted: CheckpointFilter, limit: int | None) -> None:
        self._wanted = wanted
        self._left = limit
        self._below: int | None = None
        self._more = True

    def __iter__(self) -> Iterator[_Pages]:
        while self._more and (self._left is None or self._left > 0):
            yield self

    @property
    def _size(self) -> int:
        return PAGE if self._left is None else min(PAGE, self._left)

    def ask(self, store: Any) -> list[LoadedCheckpoint]:
        found: list[LoadedCheckpoint] = store.checkpoints(self._wanted, limit=self._size, below=self._below)
        return found

    def take(self, found: list[LoadedCheckpoint]) -> list[LoadedCheckpoint]:
        self._more = len(found) == self._size
        if found:
            self._below = found[-1].checkpoint.pk
        if self._left is not None:
            self._left -= len(found)
        return found


def _named(config: RunnableConfig) -> tuple[str, str, str | None]:
    """Return the thread, the namespace and the id that a config names."""
    configurable: Mapping[str, Any] = config.get("configurable", {})
    named = str(configurable.get("checkpoint_id") or "") or None
    return thread_of(config), configurable.get("checkpoint_ns") or "", named


def _wanted(
    config: RunnableConfig | None, filter: dict[str, Any] | None, before: RunnableConfig | None
) -> CheckpointFilter:
    configurable: Mapping[str, Any] = (config or {}).get("configurable", {})
    thread = configurable.get("thread_id")
    earlier = before.get("configurable", {}).get("checkpoint_id") if before else None
    return CheckpointFilter(
        thread=None if thread is None else thread_key(thread),
        ns=configurable.get("checkpoint_ns"),
        id=str(configurable.get("checkpoint_id") or "") or None,
        before=str(earlier) if earlier else None,
        labels=wanted_labels(filter),
    )


def _pruned(thread_ids: Sequence[str], strategy: str) -> list[str]:
    if strategy not in ("keep_latest", "delete"):
        raise WrongUse(f"threads are pruned with the strategy 'keep_latest' or 'delete', not {strategy!r}")
    return [thread_key(thread) for thread in thread_ids]
