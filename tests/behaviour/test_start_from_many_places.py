"""One id is one run, whoever starts it at the same moment: threads, processes, a client without a worker."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest

import outlast.sync
from outlast import App, WrongUse, step, workflow
from tests.behaviour.flows import doubled
from tests.behaviour.stage import Door, Ears, OpenApp, reaches

PROGRAM = Path(__file__).parent / "programs" / "same_start.py"


def test_starts_from_several_threads_execute_once(url: str) -> None:
    door, executions, results = Door(), [], []

    @step
    async def work() -> int:
        executions.append(1)
        await door.passed()
        return 7

    @workflow
    async def slow() -> int:
        return await work()

    with outlast.sync.App(url) as app:
        threads = [
            threading.Thread(target=lambda: results.append(app.start(slow(), id="same").result())) for _ in range(5)
        ]
        for thread in threads:
            thread.start()
        door.reached_in_thread()
        door.open()
        for thread in threads:
            thread.join()
    assert results == [7] * 5
    assert len(executions) == 1


def test_starts_from_two_processes_execute_once(sqlite_url: str, tmp_path: Path) -> None:
    executions, gate = tmp_path / "executions", tmp_path / "gate"
    command = [sys.executable, str(PROGRAM), sqlite_url, str(executions), str(gate)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
    gate.touch()
    assert [process.communicate()[0] for process in processes] == ["7\n", "7\n"]
    assert [process.returncode for process in processes] == [0, 0]
    assert executions.read_text() == "x"


async def test_a_client_starts_what_a_worker_elsewhere_executes(open_app: OpenApp) -> None:
    async with open_app(worker=False) as client:
        run = await client.start(doubled(4), id="one")
        assert await run.status() == "pending"
        async with open_app():
            assert await run.result() == 8


async def test_a_start_is_durable_when_it_returns(open_app: OpenApp) -> None:
    async with open_app(worker=False) as client:
        await client.start(doubled(4), id="one")
    async with open_app(worker=False) as later:
        assert await (await later.get("one")).status() == "pending"


async def test_two_workers_on_one_store_execute_each_run_once(open_app: OpenApp) -> None:
    executions: list[int] = []

    @step
    async def count(n: int) -> int:
        executions.append(n)
        return n

    @workflow
    async def counted(n: int) -> int:
        return await count(n)

    async with open_app(worker=False) as client, open_app(), open_app():
        runs = [await client.start(counted(n)) for n in range(50)]
        assert await asyncio.gather(*(run.result() for run in runs)) == list(range(50))
    assert sorted(executions) == list(range(50))


async def test_an_app_in_a_step_starts_an_independent_run(open_app: OpenApp) -> None:
    async with open_app() as app:

        @step
        async def launch() -> str:
            return (await app.start(doubled(3), id="launched")).id

        @workflow
        async def launching() -> str:
            return await launch()

        assert await (await app.start(launching())).result() == "launched"
        assert await (await app.get("launched")).result() == 6


async def test_an_app_in_a_workflow_body_is_refused(open_app: OpenApp, ears: Ears) -> None:
    async with open_app(on_event=ears) as app:

        @workflow
        async def launching() -> None:
            await app.start(doubled(3))

        @workflow
        async def looking() -> None:
            await app.runs()

        for call in (launching(), looking()):
            with pytest.raises(WrongUse, match="cannot be used in a workflow body"):
                await (await app.start(call)).result()


@pytest.mark.parametrize("how", ["enter", "run", "enter sync", "run sync", "in a loop"])
@pytest.mark.parametrize("blocking", [False, True], ids=["async-body", "sync-body"])
async def test_an_app_of_its_own_is_refused_in_a_body_in_the_same_words(
    open_app: OpenApp, url: str, how: str, blocking: bool
) -> None:
    async def enter() -> None:
        async with App(url):
            pass

    def use() -> None:
        match how:
            case "enter":
                enter().send(None)
            case "run":
                App(url).run(doubled(1))
            case "enter sync":
                outlast.sync.App(url).__enter__()
            case "run sync":
                outlast.sync.App(url).run(doubled(1))
            case _:
                asyncio.run(enter())

    async def using() -> None:
        if how == "enter":
            await enter()
        else:
            use()

    flow = workflow(name=f"app_in_body_{how.replace(' ', '_')}_{blocking}")(use if blocking else using)
    if how == "in a loop" and not blocking:
        pytest.skip("asyncio refuses that itself")
    async with open_app() as app:
        with pytest.raises(WrongUse, match=r"an App cannot be used in a workflow body .*call the workflow") as raised:
            await (await app.start(flow.call(), id="r")).result()
    assert f"(run r of {flow.name})" in str(raised.value)


def test_an_app_shows_its_store(url: str) -> None:
    assert repr(App(url)) == repr(outlast.sync.App(url)) == f"<App {url}>"


def test_an_app_is_refused_in_another_event_loop(url: str) -> None:
    async def main() -> None:
        async with App(url) as app:
            run = await app.start(doubled(1))

            async def elsewhere() -> None:
                with pytest.raises(WrongUse, match="opened in another event loop"):
                    await app.start(doubled(1))
                with pytest.raises(WrongUse, match="opened in another event loop"):
                    await run.result()

            await asyncio.to_thread(asyncio.run, elsewhere())

    asyncio.run(main())


def test_an_app_is_refused_in_a_forked_child(url: str) -> None:
    async def main() -> int:
        async with App(url) as app:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # threads and fork: what this test is about
                pid = os.fork()
            if pid == 0:
                try:
                    await app.start(doubled(1))
                except WrongUse as refused:
                    os._exit(0 if "forked child" in str(refused) else 1)
                os._exit(2)
            assert await (await app.start(doubled(1))).result() == 2
            return pid

    pid = asyncio.run(main())
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


async def test_a_run_of_a_workflow_that_is_not_known_here_waits_for_a_worker_that_knows_it(sqlite_url: str) -> None:
    source = (
        "import asyncio\n"
        "from outlast import App, workflow\n"
        "@workflow\n"
        "async def foreign(): return 5\n"
        "async def main():\n"
        f"  async with App({sqlite_url!r}, worker=False) as app: await app.start(foreign(), id='f')\n"
        "asyncio.run(main())"
    )
    subprocess.run([sys.executable, "-c", source], check=True)  # noqa: ASYNC221 - nothing else waits here
    async with App(sqlite_url) as app:
        other = await app.start(doubled(1))
        assert await other.result() == 2
        run = await app.get("f")
        assert await run.status() == "pending"

        @workflow
        async def foreign() -> int:
            return 5

        await reaches(run, "succeeded")
