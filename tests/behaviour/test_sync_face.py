"""`outlast.sync`: the same names, blocking, from any thread; and `app.run` for scripts."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import outlast
import outlast.sync
from outlast import Happened, RunCancelled, RunConflict, WrongUse, step, workflow
from tests.behaviour.flows import doubled, step_at
from tests.behaviour.stage import Door


@workflow
async def failing(text: str) -> None:
    raise LookupError(text)


@workflow
async def sleeping() -> None:
    await asyncio.sleep(3600)


@step(effect="once")
async def pay() -> str:
    raise TimeoutError


@workflow
async def paying() -> str:
    return await pay()


def public(cls: type) -> dict[str, Any]:
    """Return the public methods and properties of a class."""
    members = {name: member for base in reversed(cls.__mro__[:-1]) for name, member in vars(base).items()}
    return {name: member for name, member in members.items() if not name.startswith("_")}


def test_it_is_there_without_an_import_of_its_own_and_loaded_when_it_is_first_used() -> None:
    code = "import outlast, sys; print('outlast.sync' in sys.modules, outlast.sync.App.__name__)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "False App\n"
    with pytest.raises(AttributeError, match="module 'outlast' has no attribute 'snyc'"):
        outlast.snyc  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("name", ["App", "Run"])
def test_it_has_the_same_names_and_parameters(name: str) -> None:
    # `store`, `ask` and `loop` are not for users; `close` is what leaving the `with` block does
    internal = {"store", "ask", "loop", "close"}
    plain, blocking = public(getattr(outlast, name)), public(getattr(outlast.sync, name))
    assert plain.keys() - internal == blocking.keys()
    for method in blocking:
        if callable(plain[method]):
            assert inspect.signature(plain[method]).parameters.keys() == (
                inspect.signature(blocking[method]).parameters.keys()
            ), method
            assert not inspect.iscoroutinefunction(blocking[method])


def test_everything_works_from_plain_code(url: str) -> None:
    with outlast.sync.App(url, park_after=0.02) as app:
        run = app.start(doubled(4), id="one")
        assert (run.id, run.workflow, run.result(), run.status()) == ("one", "doubled", 8, "succeeded")
        assert run.info().id == "one"
        assert [s.id for s in run.steps()] == ["main/double#1"]
        assert app.get("one").result() == 8
        assert [i.id for i in app.runs()] == ["one"]
        assert app.run(doubled(5)) == 10
        fork = app.fork("one", "double", new_id="two")
        assert fork.result() == 8
        with pytest.raises(RunConflict):
            app.start(doubled(5), id="one")
        assert repr(run) == "<Run one of doubled>"


def test_errors_come_back_as_themselves(url: str) -> None:
    with outlast.sync.App(url) as app:
        with pytest.raises(LookupError, match="gone"):
            app.start(failing("gone")).result()
        with pytest.raises(outlast.RunNotFound):
            app.get("nobody")
        with pytest.raises(TimeoutError):
            app.start(sleeping()).result(timeout=0.01)


def test_runs_are_cancelled_resumed_and_resolved(url: str) -> None:
    with outlast.sync.App(url, park_after=0.02) as app:
        run = app.start(sleeping(), id="one")
        app.cancel("one")
        with pytest.raises(RunCancelled):
            run.result()
        assert app.resume("one").status() in ("pending", "running", "waiting")
        run.cancel()
        doubtful = app.start(paying(), id="two")
        with pytest.raises(outlast.RunStuck):
            doubtful.result()
        app.resolve("two", "pay", Happened("paid"), attempt=1, by="ann")
        assert doubtful.result() == "paid"
        app.drain(0.0)


def test_it_is_used_from_several_threads(url: str) -> None:
    with outlast.sync.App(url) as app, ThreadPoolExecutor(8) as threads:

        def one(n: int) -> int:
            return app.start(doubled(n), id=f"run-{n}").result()

        assert list(threads.map(one, range(40))) == [2 * n for n in range(40)]
        assert len(app.runs()) == 40


def test_a_run_is_waited_for_in_another_thread_than_it_was_started(url: str) -> None:
    with outlast.sync.App(url) as app:
        run = app.start(doubled(3))
        results: list[int] = []
        thread = threading.Thread(target=lambda: results.append(run.result()))
        thread.start()
        thread.join()
        assert results == [6]


def test_a_client_without_a_worker_shares_the_store_with_one(url: str) -> None:
    with outlast.sync.App(url, worker=False) as client:
        run = client.start(doubled(3))
        assert run.status() == "pending"
        with outlast.sync.App(url):
            assert run.result() == 6


def test_an_app_that_is_not_open_refuses(url: str) -> None:
    app = outlast.sync.App(url)
    with pytest.raises(WrongUse, match="not open"):
        app.get("one")
    with pytest.raises(WrongUse, match="not open"):
        app.start(doubled(1))  # and no warning of a forgotten call
    with app:
        run = app.start(doubled(1))
        run.result()
    with pytest.raises(WrongUse, match="not open"):
        app.runs()
    with pytest.raises(WrongUse, match="not open"):
        run.status()


@pytest.mark.parametrize("timeout", [None, 60.0])
def test_whoever_waits_in_another_thread_when_the_app_is_closed_is_told(url: str, timeout: float | None) -> None:
    told: list[BaseException] = []
    begins = threading.Event()

    with outlast.sync.App(url) as app:
        run = app.start(sleeping())

        def wait() -> None:
            begins.set()
            try:
                run.result(timeout)
            except BaseException as error:  # noqa: BLE001 - looked at below
                told.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        begins.wait()
        run.status()
    thread.join()
    assert isinstance(told[0], WrongUse)


def test_an_app_is_opened_again_but_not_twice_at_once(url: str) -> None:
    app = outlast.sync.App(url)
    for n in (1, 2):
        with app:
            assert app.start(doubled(n)).result() == 2 * n
            with pytest.raises(WrongUse, match="open already"):
                app.__enter__()
            assert app.start(doubled(n)).result() == 2 * n


def test_a_store_that_cannot_be_opened_is_said_and_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "no.db").write_text("this is no database, and much longer than the header of one would be" * 10)
    with pytest.raises(outlast.NotAStore), outlast.sync.App(f"sqlite:///{tmp_path}/no.db"):
        pass
    with pytest.raises(WrongUse), outlast.sync.App("mysql://host"):
        pass


def test_it_is_refused_in_a_workflow_body(url: str) -> None:
    with outlast.sync.App(url) as app:

        @workflow
        async def reaching() -> None:
            app.runs()

        @workflow
        def reaching_blocking() -> None:
            app.start(doubled(1))

        for call in (reaching(), reaching_blocking()):
            with pytest.raises(WrongUse, match="cannot be used in a workflow body"):
                app.start(call).result()


def test_it_is_refused_where_it_would_wait_for_itself_and_works_in_a_thread(url: str) -> None:
    with outlast.sync.App(url) as app:

        @step
        async def on_the_loop() -> int:
            return app.start(doubled(1)).result()

        @step
        def in_a_thread() -> int:
            return app.start(doubled(2), id="from-step").result()

        @workflow
        async def flow(blocking: bool) -> int:
            return await (in_a_thread.call() if blocking else on_the_loop())

        with pytest.raises(WrongUse, match="its own event loop"):
            app.start(flow(False)).result()
        assert app.start(flow(True)).result() == 4


def test_it_is_refused_in_a_forked_child(url: str) -> None:
    with outlast.sync.App(url) as app:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            try:
                app.runs()
            except WrongUse as refused:
                os._exit(0 if "forked child" in str(refused) else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert app.start(doubled(1)).result() == 2


def test_an_error_in_the_block_closes_it(url: str) -> None:
    door = Door()
    wait = step_at(door)

    @workflow
    async def flow() -> None:
        await wait()

    with pytest.raises(ZeroDivisionError), outlast.sync.App(url, grace=0.0) as app:  # noqa: PT012
        app.start(flow(), id="one")
        door.reached_in_thread()
        raise ZeroDivisionError
    door.open()
    with outlast.sync.App(url) as app:
        app.get("one").result()


# -- app.run ----------------------------------------------------------------------------------------


def test_run_is_a_script_in_one_line(url: str) -> None:
    assert outlast.App(url).run(doubled(4)) == 8
    assert outlast.App(url).run(doubled(4), id="one") == 8
    assert outlast.App(url).run(doubled(4), id="one") == 8
    with pytest.raises(LookupError, match="gone"):
        outlast.App(url).run(failing("gone"))
    assert outlast.sync.App(url).run(doubled(5)) == 10


async def test_run_is_refused_where_a_loop_runs(url: str) -> None:
    with pytest.raises(WrongUse, match=r"app\.run\(\) blocks"):
        outlast.App(url).run(doubled(4))


def test_a_script_takes_up_what_its_last_execution_left(sqlite_url: str, tmp_path: Path) -> None:
    """The same script, run twice: the second goes on where the first was ended."""
    script = tmp_path / "agent.py"
    script.write_text(
        "import os, sys\n"
        "from outlast import App, step, workflow\n"
        "@step\n"
        "async def first():\n"
        "    print('first', flush=True)\n"
        "@step\n"
        "async def second():\n"
        "    if len(sys.argv) > 1: os._exit(3)\n"
        "    return 'done'\n"
        "@workflow\n"
        "async def agent():\n"
        "    await first()\n"
        "    return await second()\n"
        f"print(App({sqlite_url!r}).run(agent(), id='agent'), flush=True)\n"
    )
    ended = subprocess.run([sys.executable, script, "die"], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (3, "first\n")
    again = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert again.stdout == "done\n"
