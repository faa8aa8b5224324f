"""What a run writes to a stream is read once, in order, live and later, whatever is tried again in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

import outlast
import outlast.sync
from outlast import StreamFull, StreamItem, WrongUse, step, workflow
from outlast.stores.emitted import Items
from outlast.stores.verbs import Write
from tests.behaviour.flows import note
from tests.behaviour.gated_store import Gate
from tests.behaviour.readers import Reader, all_of, tell
from tests.behaviour.stage import Door, OpenApp, Restart, eventually, failure, has_recorded, unless_it_ends


async def test_readers_get_what_steps_and_bodies_write_live_and_later(open_app: OpenApp) -> None:
    door = Door()

    @step
    async def telling() -> None:
        tokens = outlast.stream("tokens")
        tokens.write({"n": 1})
        await door.passed()
        tokens.write({"n": 2})

    @workflow
    async def flow() -> None:
        outlast.stream("tokens").write("begin")
        await telling()
        outlast.stream("tokens").write("end")

    async with open_app() as app:
        run = await app.start(flow())
        live = Reader(run)
        await unless_it_ends(run, live.read(most=2))
        assert live.values == ["begin", {"n": 1}]
        door.open()
        await live.read()
        assert live.values == await all_of(run) == await all_of(run, final=True) == ["begin", {"n": 1}, {"n": 2}, "end"]
        assert [item.position for item in live.has] == [1, 2, 3, 4]
        assert await all_of(run, "another") == []


async def test_a_reader_of_another_program_sees_it_too(open_app: OpenApp, url: str) -> None:
    if url.startswith("memory"):
        pytest.skip("a store in memory has no other programs")
    async with open_app() as app, open_app(worker=False) as client:
        run = await app.start(tell(50), id="one")
        assert await all_of(await client.get("one")) == await all_of(run) == [f"t{n}" for n in range(50)]


async def test_parallel_writes_are_all_there_in_one_order_without_gaps(open_app: OpenApp) -> None:
    @step
    async def one(n: int) -> None:
        outlast.stream("tokens").write(n)

    @step
    def in_thread(n: int) -> None:
        outlast.sync.stream("tokens").write(n)

    @workflow
    async def flow() -> None:
        await asyncio.gather(*(one(n) for n in range(50)), *(in_thread.call(n) for n in range(50, 70)))

    async with open_app() as app:
        run = await app.start(flow())
        first, second = await asyncio.gather(Reader(run).read(), Reader(run).read())
        assert sorted(first.values) == list(range(70))
        assert first.has == second.has
        assert [item.position for item in first.has] == list(range(1, 71))


async def test_what_is_written_survives_a_restart_and_is_not_written_again(restart: Restart, open_app: OpenApp) -> None:
    @workflow
    async def flow() -> None:
        tokens = outlast.stream("tokens")
        tokens.write("begin")
        outlast.patched("a note in the first turn")
        await tell(3)
        tokens.write("between")
        await restart.point()
        tokens.write("end")

    run_id = await restart.run(flow())
    async with open_app() as app:
        run = await app.get(run_id)
        assert await all_of(run) == ["begin", "t0", "t1", "t2", "between", "end"]


@pytest.mark.parametrize("with_a_note", [True, False])
async def test_the_first_turn_is_written_once_though_it_has_no_record(
    restart: Restart, open_app: OpenApp, with_a_note: bool
) -> None:
    @workflow
    async def flow() -> None:
        if with_a_note:
            outlast.patched("note")
        outlast.stream("tokens").write("one")
        outlast.stream("tokens").write("two")
        await restart.point()

    run_id = await restart.run(flow())
    async with open_app() as app:
        assert await all_of(await app.get(run_id)) == ["one", "two"]


@pytest.mark.parametrize("how", ["succeeded", "failed", "cancelled", "stuck"])
async def test_a_reader_ends_when_the_run_ends_in_any_way(open_app: OpenApp, how: str) -> None:
    door = Door()

    @step(effect="once")
    async def pay() -> None:
        outlast.stream("tokens").write("paying")
        await door.passed()
        raise LookupError

    @workflow
    async def flow() -> None:
        outlast.stream("tokens").write("begin")
        if how == "stuck":
            await pay()
        await note("busy")
        if how == "failed":
            raise LookupError
        if how == "cancelled":
            await asyncio.sleep(3600)

    async with open_app() as app:
        run = await app.start(flow())
        reader = Reader(run)
        following = asyncio.ensure_future(reader.read())
        await eventually(lambda: bool(reader.has))
        if how == "cancelled":
            await has_recorded(run, "step")
            await run.cancel()
        door.open()
        await following
        assert reader.values[0] == "begin"
        assert await run.status() == how
        if how == "stuck":  # what the attempt in doubt wrote stands until a person has decided
            assert reader.values == await all_of(run) == ["begin", "paying"]
            assert await all_of(run, final=True) == ["begin"]
            await run.cancel()
            await reader.read()
            assert reader.values == ["begin"]


async def test_nothing_of_a_step_or_a_turn_leaves_before_the_records_before_it(open_app: OpenApp, gate: Gate) -> None:
    @step(effect="pure")
    async def first() -> str:
        return "first"

    @workflow
    async def flow() -> None:
        value = await first()
        outlast.stream("tokens").write(f"after {value}")
        await tell(1)

    async with open_app() as app:
        gate.hold_where(lambda verb: isinstance(verb, Write) and any(r.key == "main/first#1" for r in verb.records))
        run = await app.start(flow())
        await eventually(lambda: gate.waiting == 1)
        store = app.store
        assert store.streams(run._row.pk) == []
        gate.release()
        assert await all_of(run) == ["after first", "t0"]
    items = [verb for verb in gate.committed if isinstance(verb, Write) and verb.emits]
    assert [r.key for r in items[0].records] == ["main/first#1"], "the turn's item came with the record of its event"


async def test_the_outcome_of_a_step_is_recorded_after_all_that_it_wrote(open_app: OpenApp, gate: Gate) -> None:
    async with open_app() as app:
        run = await app.start(tell(1000))
        await run.result()
        outcome = next(n for n, verb in enumerate(gate.committed) if isinstance(verb, Write) and verb.records)
        written = [
            len(thing.items)
            for verb in gate.committed[:outcome]
            if isinstance(verb, Write)
            for thing in verb.emits
            if isinstance(thing, Items)
        ]
        assert sum(written) == 1000
        assert len(written) < 200, "they go in batches"


async def test_a_step_that_never_drains_is_stopped_before_memory_is_full(open_app: OpenApp, gate: Gate) -> None:
    drained = Door()

    @step(effect="pure")
    async def hasty() -> None:
        while True:
            outlast.stream("tokens").write("x" * 10_000)

    @step(effect="pure")
    async def patient() -> None:
        tokens = outlast.stream("tokens")
        for _ in range(1000):
            tokens.write("x" * 10_000)
            await tokens.drain()
        await drained.passed()

    @step(effect="pure")
    def in_thread() -> int:
        tokens = outlast.sync.stream("tokens")
        for _ in range(1000):
            tokens.write("x" * 10_000)
        tokens.drain()
        return 1

    async with open_app() as app:
        assert isinstance(await failure(await app.start(hasty())), StreamFull)
        drained.open()
        for call in (patient(), in_thread.call()):
            run = await app.start(call)
            await run.result()
            assert len(await all_of(run)) == 1000


async def test_a_run_that_was_pruned_ends_its_readers_with_an_error(open_app: OpenApp) -> None:
    from outlast.stores.verbs import Prune  # noqa: PLC0415

    async with open_app() as app:
        run = await app.start(tell(1))
        await run.result()
        await app.ask(Prune(before=app.store.now() + 1))
        with pytest.raises(outlast.RunNotFound, match="pruned"):
            await all_of(run)


async def test_wrong_uses_say_what_is_right(open_app: OpenApp) -> None:
    @step
    async def odd() -> None:
        outlast.stream("tokens").write(object())

    with pytest.raises(WrongUse, match="outside of any run"):
        outlast.stream("tokens").write(1)
    with pytest.raises(WrongUse, match="outside of any run"):
        outlast.publish("progress", 1)
    for name in ("", "a\nb", 5, "x" * 300):
        with pytest.raises(WrongUse, match="printable"):
            outlast.stream(name)  # type: ignore[arg-type]
    async with open_app() as app:
        run = await app.start(odd())
        assert isinstance(error := await failure(run), outlast.EncodingError)
        assert "'tokens'" in str(error)
        for after in (-1, "1", None, True):
            with pytest.raises(WrongUse, match=r"run.stream\(after=.*must be a whole number"):
                run.stream("tokens", after=after)  # type: ignore[arg-type]


async def test_a_sync_workflow_and_a_blocking_reader(open_app: OpenApp, url: str) -> None:
    @step
    def telling(n: int) -> None:
        tokens = outlast.sync.stream("tokens")
        tokens.write(n)
        tokens.drain()

    @workflow
    def flow() -> str:
        outlast.stream("tokens").write("begin")
        for n in range(3):
            telling(n)
        outlast.sync.stream("tokens").write("end")
        outlast.sync.stream("tokens").drain()
        return "done"

    def from_plain_code() -> None:
        with outlast.sync.App(url, park_after=0.02) as app:
            run = app.start(flow())
            assert [item.value for item in run.stream("tokens") if isinstance(item, StreamItem)] == [
                "begin", 0, 1, 2, "end",
            ]  # fmt: skip
            assert len(list(run.stream("tokens", after=3, final=True))) == 2
            for item in run.stream("tokens"):
                assert item.position == 1
                break

    await asyncio.to_thread(from_plain_code)


async def test_items_come_back_as_the_type_that_is_asked_for(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(tell(2))
        items: AsyncIterator[Any] = run.stream("tokens", type=str)
        assert [item.value async for item in items] == ["t0", "t1"]


async def test_readers_survive_a_store_that_is_away_and_end_with_their_app(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = Door()

    @step
    async def telling() -> None:
        outlast.stream("tokens").write(1)
        await door.passed()

    app = open_app()
    await app.__aenter__()
    run = await app.start(telling())
    real, away = type(app.store).stream, [3]

    def sometimes(self: Any, *args: Any) -> Any:
        if away[0]:
            away[0] -= 1
            raise outlast.StoreUnavailable("the test has taken the store away")
        return real(self, *args)

    monkeypatch.setattr(type(app.store), "stream", sometimes)
    reader = Reader(run)
    following = asyncio.ensure_future(reader.read())
    await eventually(lambda: reader.values == [1])
    await app.close()
    with pytest.raises(WrongUse, match="closed"):
        await following
    door.open()
