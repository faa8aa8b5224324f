"""Waiting for a run: who waits, for how long and from where changes nothing for the run."""

from __future__ import annotations

import asyncio
import shlex
import subprocess
import sys
from collections.abc import Coroutine
from typing import Any

import pytest

import outlast
from outlast import RunCancelled, RunNotFound, RunStuck, WrongUse, step, workflow
from outlast.stores.verbs import Cancel, Prune, Send, Verb
from tests.behaviour.flows import doubled, waiting_at
from tests.behaviour.gated_store import Gate
from tests.behaviour.stage import Door, OpenApp, eventually, reaches


async def test_many_waiters_get_the_same_result(open_app: OpenApp) -> None:
    door = Door()
    async with open_app() as app:
        run = await app.start(waiting_at(door)(), id="one")
        others = [await app.get("one") for _ in range(20)]
        waiters = [asyncio.create_task(r.result()) for r in (run, *others, *others)]
        await door.reached()
        door.open()
        assert await asyncio.gather(*waiters) == ["passed"] * 41


async def test_cancelling_a_waiter_only_cancels_the_waiting(open_app: OpenApp) -> None:
    door = Door()
    async with open_app() as app:
        run = await app.start(waiting_at(door)(), id="one")
        waiter = asyncio.create_task(run.result())
        await door.reached()
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        assert await run.status() == "running"
        door.open()
        assert await run.result() == "passed"
        assert await (await app.get("one")).result() == "passed"


async def test_a_result_that_takes_too_long_ends_the_waiting_only(open_app: OpenApp) -> None:
    door = Door()
    async with open_app() as app:
        run = await app.start(waiting_at(door)(), id="one")
        with pytest.raises(TimeoutError, match=r"run one \(\w+\) had not ended after 0\.01 s: it is running on worker"):
            await run.result(timeout=0.01)
        with pytest.raises(TimeoutError):
            await run.result(timeout=0)
        door.open()
        assert await run.result(timeout=20) == "passed"


async def test_a_timeout_of_zero_asks_whether_the_run_has_ended(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(doubled(2), id="one")
        await run.result()
        assert await run.result(timeout=0) == 4
        async with open_app(worker=False) as client:
            assert await (await client.get("one")).result(timeout=0) == 4


async def test_who_waits_in_vain_is_told_that_nobody_executes_the_run(open_app: OpenApp, url: str) -> None:
    async with open_app(worker=False) as client:
        run = await client.start(doubled(2), id="one")
        with pytest.raises(TimeoutError) as told:
            await run.result(timeout=0.01)
    same_url = shlex.quote(url.replace("postgres:@", "postgres@"))  # without its password, which is empty
    command = f"outlast worker {doubled.fn.__module__} --url {same_url}"
    if url.startswith("memory:"):
        command = "App(worker=True) in this process"
    why = f"it is pending, and no worker is alive; start one: {command}"
    assert str(told.value) == f"run one (doubled) had not ended after 0.01 s: {why}"


async def test_a_client_in_another_app_gets_the_result(open_app: OpenApp) -> None:
    door = Door()
    async with open_app() as app, open_app(worker=False) as client:
        await app.start(waiting_at(door)(), id="one")
        waiter = asyncio.create_task((await client.get("one")).result())
        await door.reached()
        door.open()
        assert await waiter == "passed"


async def test_a_client_in_another_process_gets_the_result(sqlite_url: str) -> None:
    source = (
        "import asyncio, sys\n"
        "from outlast import App\n"
        "async def main():\n"
        f"  async with App({sqlite_url!r}, worker=False) as app:\n"
        "    run = await app.get('one')\n"
        "    print('waiting', flush=True)\n"
        "    print(await run.result(), flush=True)\n"
        "asyncio.run(main())"
    )
    door = Door()
    async with outlast.App(sqlite_url) as app:
        await app.start(waiting_at(door)(), id="one")
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", source, stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert await process.stdout.readline() == b"waiting\n"
        door.open()
        assert await process.stdout.readline() == b"passed\n"
        assert await process.wait() == 0


async def test_a_run_that_ended_long_ago_gives_its_result_to_whoever_asks(open_app: OpenApp) -> None:
    async with open_app() as app:
        runs = [await app.start(doubled(n), id=f"run-{n}") for n in range(30)]
        await asyncio.gather(*(run.result() for run in runs))
    async with open_app() as app:
        again = [await app.get(f"run-{n}") for n in range(30)]
        assert await asyncio.gather(*(run.result() for run in again)) == [2 * n for n in range(30)]


async def test_the_result_is_a_new_object_each_time(open_app: OpenApp) -> None:
    @workflow
    async def listing() -> list[int]:
        return [1, 2]

    async with open_app() as app:
        run = await app.start(listing())
        (await run.result()).append(3)
        assert await run.result() == [1, 2]


async def test_waiting_for_a_stuck_run_says_that_a_person_is_needed(open_app: OpenApp) -> None:
    @step(effect="once")
    async def pay() -> None:
        raise ConnectionError("read timeout")

    @workflow
    async def paying() -> None:
        await pay()

    async with open_app() as app:
        run = await app.start(paying(), id="one")
        with pytest.raises(RunStuck, match=r"run one \(paying\) is stuck: in_doubt: .*outlast resolve one") as stuck:
            await run.result()
        assert stuck.value.reason == "in_doubt"
        with pytest.raises(RunStuck):
            await run.result(timeout=0)


async def test_a_waiter_learns_that_the_run_was_cancelled(open_app: OpenApp) -> None:
    door = Door()
    async with open_app() as app:
        run = await app.start(waiting_at(door)(), id="one")
        waiter = asyncio.create_task(run.result())
        await door.reached()
        await app.cancel("one")
        with pytest.raises(RunCancelled, match=r"run one \(waiting\) was cancelled"):
            await waiter


async def test_a_waiter_learns_that_the_app_was_closed(open_app: OpenApp) -> None:
    door = Door()
    async with open_app() as app:
        run = await app.start(waiting_at(door)(), id="one")
        waiter = asyncio.create_task(run.result())
        await door.reached()
    with pytest.raises(WrongUse, match="the App was closed while somebody waited"):
        await waiter


async def test_a_handle_follows_its_run_through_a_resume(open_app: OpenApp) -> None:
    works: list[int] = []

    @step
    async def flaky() -> str:
        if not works:
            raise ConnectionError("down")
        return "up"

    @workflow
    async def flow() -> str:
        return await flaky()

    async with open_app() as app:
        run = await app.start(flow(), id="one")
        with pytest.raises(ConnectionError):
            await run.result()
        works.append(1)
        await app.resume("one")
        assert await run.result() == "up"
        assert await run.status() == "succeeded"


async def test_who_waits_for_a_run_that_was_deleted_is_told(open_app: OpenApp) -> None:
    door = Door()
    async with open_app() as app, open_app(worker=False) as client:
        run = await app.start(waiting_at(door)(), id="one")
        await door.reached()
        handle = await client.get("one")
        door.open()
        await run.result()
        await asyncio.to_thread(app.store.transact, [Prune(before=app.store.now() + 1)])
        with pytest.raises(RunNotFound, match="run one is no longer in the store"):
            await handle.result()
        with pytest.raises(RunNotFound):
            await handle.status()
        assert await (await app.start(doubled(3), id="one")).result() == 6  # the id is free, and nothing of it is left


async def test_an_unknown_id_is_not_found(open_app: OpenApp) -> None:
    async with open_app() as app:
        for action in (app.get, app.cancel, app.resume):
            with pytest.raises(RunNotFound, match="no run has the id 'nobody'"):
                await action("nobody")
        with pytest.raises(RunNotFound):
            await app.resolve("nobody", "step", "fail")
        with pytest.raises(RunNotFound):
            await app.fork("nobody", "step")


async def test_the_status_tells_where_a_run_stands(open_app: OpenApp) -> None:
    door = Door()

    @workflow
    async def sleeping() -> None:
        await asyncio.sleep(3600)

    async with open_app() as app:
        run = await app.start(waiting_at(door)(), id="one")
        await door.reached()
        assert await run.status() == "running"
        door.open()
        await run.result()
        assert await run.status() == "succeeded"
        resting = await app.start(sleeping())
        await reaches(resting, "waiting")


async def test_info_names_what_a_person_wants_to_know(open_app: OpenApp) -> None:
    async with open_app(version="v7") as app:
        run = await app.start(doubled(2), id="one")
        await run.result()
        info = await run.info()
    assert (info.id, info.workflow, info.status, info.version) == ("one", "doubled", "succeeded", "v7")
    assert info.created <= (info.started or 0) <= (info.ended or 0)
    assert (info.claims, info.crashes, info.is_step, info.owner) == (1, 0, False, "")
    assert info.python == f"{sys.version_info.major}.{sys.version_info.minor}"


async def test_listings_take_filters_and_pages(open_app: OpenApp) -> None:
    @workflow
    async def failing() -> None:
        raise ValueError

    async with open_app() as app:
        for n in range(7):
            await (await app.start(doubled(n), id=f"d-{n}")).result()
        failed = await app.start(failing(), id="f-0")
        await eventually(lambda: _is(failed, "failed"))

        assert [i.id for i in await app.runs()] == ["f-0", *(f"d-{n}" for n in reversed(range(7)))]
        assert [i.id for i in await app.runs(limit=2, before="d-5")] == ["d-4", "d-3"]
        assert [i.id for i in await app.runs(status="failed")] == ["f-0"]
        assert [i.id for i in await app.runs(status=["failed", "succeeded"], limit=2)] == ["f-0", "d-6"]
        assert [i.id for i in await app.runs(workflow="failing")] == ["f-0"]
        assert await app.runs(status="running") == []
        assert await app.runs(id_prefix="d-%") == []
        with pytest.raises(WrongUse, match=r"app.runs\(status='done'\): must be one of pending"):
            await app.runs(status="done")
        with pytest.raises(WrongUse, match=r"app.runs\(reason='tired'\): must be one of in_doubt"):
            await app.runs(reason="tired")
        with pytest.raises(RunNotFound):
            await app.runs(before="nobody")


async def _is(run: Any, status: str) -> bool:
    return str(await run.status()) == status


async def test_a_client_that_is_given_up_has_done_what_it_was_about_to_do(open_app: OpenApp, gate: Gate) -> None:
    @workflow
    async def receiving() -> Any:
        return await outlast.receive("item")

    async def give_up(doing: Coroutine[Any, Any, Any], kind: type[Verb]) -> None:
        gate.hold(kind)
        task = asyncio.create_task(doing)
        await eventually(lambda: gate.waiting == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.release()

    async with open_app() as app:
        run = await app.start(receiving(), id="one")
        await give_up(run.send("item", 5), Send)
        assert await run.result() == 5
        run = await app.start(receiving())
        await give_up(run.cancel(), Cancel)
        with pytest.raises(RunCancelled):
            await run.result()
