"""Messages are kept by the run's id, taken once and in order, and a wait that is over swallows nothing."""

from __future__ import annotations

import asyncio
import datetime as dt
from dataclasses import dataclass
from typing import Any

import pytest

import outlast
from outlast import step, workflow
from outlast.stores.verbs import Write
from tests.behaviour.flows import executed, note
from tests.behaviour.gated_store import Gate
from tests.behaviour.stage import Ears, OpenApp, Restart, eventually, has_recorded


@dataclass
class Order:
    """What a message may hold."""

    id: int
    day: dt.date


@workflow
async def collecting(count: int) -> list[Any]:
    return [await outlast.receive("item") for _ in range(count)]


@workflow
async def expecting() -> Any:
    return await outlast.receive("go", type=Order)


async def test_a_run_gets_what_is_sent_to_it_in_the_order_in_which_it_was_sent(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(collecting(500))
        for n in range(500):
            await run.send("item", n)
        assert await run.result() == list(range(500))
        assert await run.messages() == []


async def test_a_message_that_comes_before_the_wait_is_kept_for_it(open_app: OpenApp) -> None:
    @workflow
    async def late() -> Any:
        await note("busy")
        return await outlast.receive("go")

    async with open_app() as app:
        runs = [await app.start(late()) for _ in range(20)]
        for n, run in enumerate(runs):
            await run.send("go", n)
        assert [await run.result() for run in runs] == list(range(20))


async def test_a_message_can_be_sent_before_its_run_is_started(open_app: OpenApp) -> None:
    async with open_app(worker=False) as client:
        for n in range(3):
            await client.send("later", "item", n, early=True)
        await client.send("later", "item", 99, id="same", early=True)
        await client.send("later", "item", 99, id="same", early=True)
    async with open_app() as app:
        run = await app.start(collecting(4), id="later")
        assert await run.result() == [0, 1, 2, 99]


async def test_a_cancelled_run_takes_no_message_and_says_so_in_words(open_app: OpenApp) -> None:
    async with open_app(worker=False) as client:
        run = await client.start(collecting(1), id="one")
        await run.cancel(force=True)
        with pytest.raises(outlast.RunEnded, match="takes no message 'item' any more: it was cancelled"):
            await run.send("item")
        with pytest.raises(outlast.RunNotFound, match=r"with --early \(in Python: early=True\) it is kept"):
            await client.send("two", "item")


async def test_a_wait_that_is_awaited_twice_is_named_as_code_has_it(open_app: OpenApp) -> None:
    @workflow
    async def twice() -> None:
        waits = outlast.receive("item")
        await waits
        await waits

    async with open_app() as app:
        run = await app.start(twice())
        await run.send("item")
        with pytest.raises(RuntimeError, match=r"was awaited before; call outlast\.receive again") as raised:
            await run.result()
        assert "!" not in str(raised.value)


async def test_a_run_that_waits_for_a_message_parks_and_says_so(open_app: OpenApp, ears: Ears) -> None:
    async with open_app(on_event=ears) as app:
        run = await app.start(collecting(1), id="one")
        await ears.hear("run.parked", run="one")
        assert (await run.info()).detail == "a message 'item'"
        await run.send("item", "here")
        assert await run.result() == ["here"]


async def test_a_repeated_send_is_one_message_also_after_it_was_taken(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(collecting(2))
        assert [await run.send("item", "a", id="m1") for _ in range(3)] == ["m1"] * 3
        await run.send("item", "b", id="m2")
        assert await run.result() == ["a", "b"]
        assert await run.send("item", "a", id="m1") == "m1"  # its answer may have been lost


async def test_a_message_is_what_it_is_waited_for_as(open_app: OpenApp) -> None:
    async with open_app() as app:
        typed = await app.start(expecting())
        await typed.send("go", Order(1, dt.date(2026, 1, 2)))
        plain = await app.start(expecting())
        await plain.send("go", {"id": 1, "day": "2026-01-02"})
        assert await typed.result() == await plain.result() == Order(1, dt.date(2026, 1, 2))


async def test_a_message_of_another_type_is_an_error_that_the_workflow_can_catch(open_app: OpenApp) -> None:
    @workflow
    async def careful() -> Any:
        try:
            return await outlast.receive("go", type=Order)
        except outlast.DecodingError as error:
            return [str(error), await outlast.receive("go", type=Order)]

    async with open_app() as app:
        run = await app.start(careful(), id="one")
        await run.send("go", {"id": "many"}, id="m1")
        await run.send("go", {"id": 2, "day": "2026-01-02"})
        said, order = await run.result()
        assert "run one: message 'go' (m1) is not what is waited for" in said
        assert order == Order(2, dt.date(2026, 1, 2))


# -- waits that are over ---------------------------------------------------------


async def test_a_wait_that_timed_out_takes_nothing(open_app: OpenApp, ears: Ears) -> None:
    @workflow
    async def impatient() -> list[Any]:
        got: list[Any] = []
        for _ in range(5):
            try:
                got.append(await outlast.receive("status", timeout=0.01))
            except TimeoutError as error:
                got.append(str(error))
        await note("waiting")
        got.append(await outlast.receive("status"))
        return got

    async with open_app(on_event=ears) as app:
        run = await app.start(impatient())
        await has_recorded(run, "step")
        await run.send("status", "here")
        assert await run.result() == ["no message 'status' came within 0.01 s"] * 5 + ["here"]


@pytest.mark.parametrize("cancels", [True, False])
async def test_the_loser_of_a_race_swallows_nothing(open_app: OpenApp, *, cancels: bool) -> None:
    @workflow
    async def racing() -> Any:
        losses = 0
        while True:
            message = asyncio.create_task(outlast.receive("status"))
            timer = asyncio.create_task(asyncio.sleep(0.01 if losses < 5 else 3600))
            await asyncio.wait([message, timer], return_when=asyncio.FIRST_COMPLETED)
            if message.done():
                return [losses, message.result()]
            losses += 1
            if cancels:
                message.cancel()
            if losses == 5:
                await note("lost")

    async with open_app() as app:
        run = await app.start(racing())
        await has_recorded(run, "step")
        await run.send("status", "here")
        assert await run.result() == [5, "here"]


async def test_waits_for_one_name_take_turns_and_other_names_are_left_alone(open_app: OpenApp) -> None:
    @workflow
    async def several() -> Any:
        return await asyncio.gather(outlast.receive("a"), outlast.receive("b"), outlast.receive("a"))

    async with open_app() as app:
        run = await app.start(several())
        for name, value in (("a", 1), ("c", 2), ("a", 3), ("b", 4)):
            await run.send(name, value)
        assert await run.result() == [1, 4, 3]
        assert [(left.name, left.value) for left in await run.messages()] == [("c", 2)]


# -- the end ---------------------------------------------------------------------


async def test_what_nobody_took_is_told_at_the_end(open_app: OpenApp, ears: Ears) -> None:
    async with open_app(on_event=ears) as app:
        run = await app.start(collecting(1))
        for n in range(3):
            await app.send(run.id, "other", n, id=f"m{n}")
        await run.send("item", "only")
        await run.result()
        notice = await ears.hear("run.unread", run=run.id)
        assert (notice.data["messages"], notice.data["names"]) == (3, ["other"])
        assert [(left.name, left.value, left.id) for left in await run.messages()] == [
            ("other", n, f"m{n}") for n in range(3)
        ]
        with pytest.raises(outlast.RunEnded, match=f"run {run.id} takes no message 'item' any more: it has succeeded"):
            await run.send("item", "late")


async def test_a_run_that_failed_and_is_resumed_takes_what_it_had_not(open_app: OpenApp) -> None:
    wrong = [True]

    @step(effect="pure")
    async def check() -> None:
        if wrong:
            raise ValueError("not yet")

    @workflow
    async def failing() -> list[Any]:
        first = await outlast.receive("item")
        await check()
        return [first, await outlast.receive("item")]

    async with open_app() as app:
        run = await app.start(failing())
        await run.send("item", 1)
        await run.send("item", 2)
        with pytest.raises(ValueError, match="not yet"):
            await run.result()
        wrong.clear()
        assert await (await app.resume(run.id)).result() == [1, 2]


# -- from runs to runs -----------------------------------------------------------


async def test_runs_and_steps_send_to_runs_and_what_is_repeated_arrives_once(
    open_app: OpenApp, restart: Restart
) -> None:
    @step(retry=outlast.Retry(attempts=3, initial=0.001))
    async def telling(run: str) -> None:
        await outlast.send(run, "item", "from a step")
        await outlast.send(run, "item", "and once more")
        if outlast.attempt() < 3:
            raise ConnectionError

    @workflow
    async def sender(run: str) -> str:
        await telling(run)
        await outlast.send(run, "item", "from a run")
        await restart.point()
        return await outlast.send(run, "item", "the last", id="chosen")

    async with open_app(worker=False) as client:
        await client.start(collecting(4), id="to")
    assert await restart.result(sender("to")) == "chosen"
    async with open_app() as app:
        assert await (await app.get("to")).result() == ["from a step", "and once more", "from a run", "the last"]


async def test_what_a_step_sends_waits_for_the_commit_of_what_the_step_rests_on(open_app: OpenApp, gate: Gate) -> None:
    @step(effect="pure")
    async def finding() -> int:
        return 7

    @step(effect="pure")
    async def telling(found: int) -> None:
        executed.append("tells")
        await outlast.send("to", "item", found)

    @workflow
    async def sender() -> None:
        await telling(await finding())

    async with open_app() as app:
        to = await app.start(collecting(1), id="to")
        run = await app.start(sender())
        gate.hold(Write)  # records are on their way, and may yet be lost
        await eventually(lambda: executed == ["tells"])
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert await to.messages() == []
        gate.release()
        assert await to.result() == [7]
        await run.result()


async def test_a_confirm_sends_nothing(open_app: OpenApp) -> None:
    async def confirm(key: str) -> Any:
        await outlast.send("to", "item")

    @step(effect="once", confirm=confirm, settle=0)
    async def paying() -> None:
        raise ConnectionError

    @workflow
    async def flow() -> None:
        await paying()

    async with open_app() as app:
        run = await app.start(flow())
        with pytest.raises(outlast.RunStuck, match=r"outlast.send was called in the confirm of step main/paying#1"):
            await run.result()


async def test_a_parent_sends_to_a_child_that_it_has_started(open_app: OpenApp) -> None:
    @workflow
    async def parent() -> Any:
        child = await outlast.start(collecting(2))
        await outlast.send(child.id, "item", 1)
        await outlast.send(child.id, "item", 2)
        return await child.result()

    async with open_app() as app:
        assert await (await app.start(parent())).result() == [1, 2]


# -- wrong use -------------------------------------------------------------------


async def test_sending_to_nobody_says_what_can_be_done(open_app: OpenApp) -> None:
    async with open_app() as app:
        with pytest.raises(outlast.RunNotFound, match=r"no run has the id 'nobody'.*early=True"):
            await app.send("nobody", "go")


@pytest.mark.parametrize("name", ["", "!timer", "a\nb", "x" * 256, 5, None])
async def test_what_cannot_name_a_message_is_refused(open_app: OpenApp, name: Any) -> None:
    async with open_app() as app:
        with pytest.raises(outlast.WrongUse, match="cannot name a message"):
            await app.send("run", name)


async def test_what_cannot_be_stored_is_refused_before_anything_is_sent(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(collecting(1))
        with pytest.raises(outlast.EncodingError):
            await run.send("item", object())
        await run.send("item", "good")
        assert await run.result() == ["good"]


async def test_receive_belongs_in_a_workflow() -> None:
    with pytest.raises(outlast.WrongUse, match=r"outlast\.receive\('go'\) belongs in a workflow"):
        outlast.receive("go")
    with pytest.raises(
        outlast.WrongUse, match=r"outlast\.send\(\) belongs in a workflow or a step \(others send with app"
    ):
        await outlast.send("run", "go")


def test_a_sync_workflow_waits_by_blocking(url: str) -> None:
    @step
    def telling(run: str, value: str) -> None:
        outlast.sync.send(run, "item", value)

    @workflow
    def blocking(to: str) -> list[Any]:
        with pytest.raises(TimeoutError):
            outlast.sync.receive("never", timeout=0.01)
        telling(to, "from a step")
        outlast.sync.send(to, "item", "from a run")
        return [outlast.sync.receive("go", type=int), outlast.sync.receive("go")]

    with outlast.sync.App(url, park_after=0.02, grace=0.0) as app:
        to = app.start(collecting(2))
        run = app.start(blocking(to.id))
        run.send("go", 5)
        app.send(run.id, "go", "six")
        assert run.result() == [5, "six"]
        assert to.result() == ["from a step", "from a run"]
        assert run.messages() == []
