"""What a step wrote that is tried again, or was given up, is dropped, and no reader ends with it."""

from __future__ import annotations

import asyncio

import pytest

import outlast
import outlast.sync
from outlast import step, workflow
from tests.behaviour.flows import note
from tests.behaviour.readers import AGAIN, Reader, all_of
from tests.behaviour.stage import Door, OpenApp, failure, reaches, unless_it_ends


async def test_a_failed_attempt_is_dropped_by_the_next_one(open_app: OpenApp) -> None:
    door = Door()

    @step(retry=AGAIN)
    async def telling() -> None:
        tokens = outlast.stream("tokens")
        for n in range(3):
            tokens.write(f"{outlast.attempt()}.{n}")
        await door.passed()
        if outlast.attempt() < 3:
            raise LookupError

    @workflow
    async def flow() -> None:
        outlast.stream("tokens").write("begin")
        await telling()

    async with open_app() as app:
        run = await app.start(flow())
        live = Reader(run)
        await unless_it_ends(run, live.read(most=4))
        assert live.values == ["begin", "1.0", "1.1", "1.2"]
        door.open()
        await live.read()
        assert live.values == await all_of(run) == ["begin", "3.0", "3.1", "3.2"]
        assert live.resets >= 1
        late = await Reader(run).read()
        assert (late.values, late.resets) == (live.values, 0), "who comes later is told of no drop"


async def test_a_reader_of_what_is_final_sees_no_item_before_the_outcome_of_its_step(open_app: OpenApp) -> None:
    door = Door()

    @step(retry=AGAIN)
    async def telling() -> None:
        outlast.stream("tokens").write(outlast.attempt())
        if outlast.attempt() == 1:
            raise LookupError
        await door.passed()

    @workflow
    async def flow() -> None:
        outlast.stream("tokens").write("begin")
        await telling()

    async with open_app() as app:
        run = await app.start(flow())
        reader, live = Reader(run, final=True), Reader(run)
        await unless_it_ends(run, reader.read(most=1))
        await unless_it_ends(run, live.read(most=2))
        assert reader.values == ["begin"]
        waiting = asyncio.ensure_future(reader.read())
        await unless_it_ends(run, door.reached())
        assert reader.values == ["begin"]
        door.open()
        await waiting
        assert (reader.values, reader.resets) == (["begin", 2], 0)


async def test_a_step_that_was_under_way_at_a_restart_writes_anew(open_app: OpenApp) -> None:
    door = Door()

    @step
    async def telling() -> None:
        tokens = outlast.stream("tokens")
        for n in range(3 + door.is_open):
            tokens.write(n)
        await door.passed()

    @workflow
    async def flow() -> None:
        await telling()

    async with open_app() as app:
        run = await app.start(flow(), id="one")
        live = Reader(run)
        await unless_it_ends(run, live.read(most=3))
        await unless_it_ends(run, door.reached())
    door.open()
    async with open_app() as app:
        live.run = await app.get("one")
        await live.read()
        assert live.values == await all_of(live.run) == [0, 1, 2, 3]


async def test_who_is_cut_off_ten_times_loses_nothing_and_doubles_nothing(open_app: OpenApp) -> None:
    @step(retry=AGAIN)
    async def telling(text: str) -> None:
        tokens = outlast.stream("tokens")
        for n in range(20):
            tokens.write(f"{text}{n}")
            await asyncio.sleep(0)
        if outlast.attempt() < 3:
            raise LookupError

    @workflow
    async def flow() -> None:
        await asyncio.gather(telling("a"), telling("b"))

    async with open_app() as app:
        run = await app.start(flow())
        reader, final = Reader(run), Reader(run, final=True)
        for _ in range(10):
            await reader.read(most=3)
            await final.read(most=1)
            await reader.read(most=1)
        await asyncio.gather(reader.read(), final.read())
        assert reader.values == final.values == await all_of(run)
        assert [v for v in reader.values if v.startswith("a")] == [f"a{n}" for n in range(20)]
        assert [v for v in reader.values if v.startswith("b")] == [f"b{n}" for n in range(20)]
        assert final.resets == 0


async def test_what_an_attempt_in_doubt_wrote_stays_when_a_person_says_that_it_happened(open_app: OpenApp) -> None:
    @step(effect="once")
    async def pay() -> str:
        outlast.stream("tokens").write("paying")
        raise LookupError

    @workflow
    async def flow() -> str:
        return await pay()

    async with open_app() as app:
        run = await app.start(flow())
        await reaches(run, "stuck")
        await app.resolve(run.id, "pay", outlast.Happened("paid"))
        assert await run.result() == "paid"
        assert await all_of(run) == await all_of(run, final=True) == ["paying"]


async def test_what_a_cancelled_step_wrote_is_dropped(open_app: OpenApp) -> None:
    door = Door()

    @step
    async def endless() -> None:
        outlast.stream("tokens").write("half a sen")
        await door.passed()
        await asyncio.sleep(3600)

    @workflow
    async def flow() -> None:
        with_limit = asyncio.create_task(asyncio.wait_for(endless(), 0.05))
        await asyncio.wait([with_limit])
        await note("after")
        outlast.stream("tokens").write("gave up")
        with_limit.exception()

    async with open_app() as app:
        run = await app.start(flow())
        reader = Reader(run)
        await reader.read(most=1)
        door.open()
        await reader.read()
        assert reader.values == await all_of(run) == ["gave up"]


async def test_a_resumed_run_drops_what_the_step_wrote_that_is_tried_anew(open_app: OpenApp) -> None:
    door = Door()

    @step(effect="pure")
    async def telling() -> None:
        outlast.stream("tokens").write("well" if door.is_open else "badly")
        if not door.is_open:
            raise LookupError

    @workflow
    async def flow() -> None:
        outlast.stream("tokens").write("begin")
        await telling()

    async with open_app() as app:
        run = await app.start(flow())
        reader = await Reader(run).read()
        assert reader.values == await all_of(run, final=True) == ["begin", "badly"]
        door.open()
        await app.resume(run.id)
        await run.result()
        await reader.read()
        assert reader.values == await all_of(run) == ["begin", "well"]


@pytest.mark.parametrize("fails_in", ["first turn", "a later turn", "a turn that wrote nothing", "two turns"])
async def test_a_run_whose_own_code_failed_writes_on_where_it_failed(open_app: OpenApp, fails_in: str) -> None:
    broken = {"first turn": [1], "two turns": [2, 3]}.get(fails_in, [3])

    @workflow
    async def flow() -> None:
        tokens = outlast.stream("tokens")
        for turn in (1, 2, 3):
            if turn < 3 or fails_in != "a turn that wrote nothing":
                tokens.write(f"{turn} begins")
                outlast.publish("phase", f"{turn} begins")
            if turn in broken:
                raise LookupError
            tokens.write(f"{turn} goes on")
            outlast.publish("phase", f"{turn} goes on")
            await note(turn)
        await outlast.receive("end")

    async with open_app() as app:
        run = await app.start(flow())
        reader = Reader(run)
        while broken:
            assert isinstance(await failure(run), LookupError)
            await reader.read()
            del broken[0]
            await app.resume(run.id)
    async with open_app() as app:  # once more from the beginning, which writes nothing again
        reader.run = run = await app.get(run.id)
        await run.send("end")
        await run.result()
        await reader.read()
        said = [f"{turn} {what}" for turn in (1, 2, 3) for what in ("begins", "goes on")]
        said.remove("3 begins") if fails_in == "a turn that wrote nothing" else None
        assert reader.values == await all_of(run) == await all_of(run, final=True) == said
        assert [item.position for item in reader.has] == list(range(1, len(said) + 1))
        assert await run.value("phase") == "3 goes on"
        assert await asyncio.to_thread(app.store.check) == []
