"""What a body may not do, since replay could not repeat it: each refusal names the way that is durable."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from outlast.core.errors import LostRun, NotDeterministic
from outlast.core.identity import here
from tests.support.rig import Rig, a_step

fetch = a_step("fetch", effect="pure")
save = a_step("save")


REFUSED: dict[str, Callable[[], Awaitable[Any]]] = {
    "open_connection": lambda: asyncio.open_connection("localhost", 1),
    "start_server": lambda: asyncio.start_server(lambda r, w: None, "localhost", 0),
    "open_unix_connection": lambda: asyncio.open_unix_connection("/nowhere"),
    "subprocess": lambda: asyncio.create_subprocess_exec("true"),
    "shell": lambda: asyncio.create_subprocess_shell("true"),
    "getaddrinfo": lambda: asyncio.get_running_loop().getaddrinfo("localhost", 1),
    "to_thread": lambda: asyncio.to_thread(print),
    "run_in_executor": lambda: asyncio.get_running_loop().run_in_executor(None, print),
}


@pytest.mark.parametrize("name", REFUSED)
def test_io_and_executors_are_refused_with_a_word_on_where_they_belong(name: str) -> None:
    async def body() -> None:
        await REFUSED[name]()

    with pytest.raises(NotDeterministic, match="put it in a step"):
        _ = Rig(body).begin().result


def test_sockets_signals_and_readers_are_refused() -> None:
    async def body() -> list[str]:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        with ours, theirs:
            attempts: list[Callable[[], Any]] = [
                lambda: loop.add_reader(ours, print),
                lambda: loop.add_signal_handler(10, print),
                lambda: loop.sock_recv(ours, 1),
                lambda: loop.run_until_complete(None),
                loop.close,
                loop.stop,
            ]
            refused = []
            for attempt in attempts:
                try:
                    attempt()
                except NotDeterministic as error:
                    refused.append(str(error))
        return refused

    refused = Rig(body).begin().result
    assert len(refused) == 6
    assert "asked for loop.add_reader" in refused[0]


def test_the_refusal_of_a_thread_names_the_function_and_the_way() -> None:
    async def body() -> None:
        await asyncio.to_thread(socket.gethostname)

    with pytest.raises(NotDeterministic, match=r"asked to run gethostname.*await outlast.call\(fn, \.\.\.\)"):
        _ = Rig(body).begin().result


def test_the_future_of_a_thread_pool_cannot_be_awaited() -> None:
    async def body() -> None:
        await asyncio.wrap_future(concurrent.futures.Future())

    with pytest.raises(NotDeterministic, match="put it in a step"):
        _ = Rig(body).begin().result


def test_another_thread_cannot_wake_a_body_and_the_run_says_so() -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    async def body() -> None:
        loops.append(asyncio.get_running_loop())
        await asyncio.Event().wait()  # as code does that hands work to a thread of its own

    rig = Rig(body).begin()
    raised: list[BaseException] = []
    told: list[int] = []
    rig.engine.loop.on_trespass = lambda: told.append(threading.get_ident())

    def wake() -> None:
        try:
            loops[0].call_soon_threadsafe(print)
        except LostRun as error:
            raised.append(error)

    thread = threading.Thread(target=wake)
    thread.start()
    thread.join()
    assert len(raised) == 1
    assert told == [thread.ident]
    rig.engine.turned()  # what the worker does once it is told
    with pytest.raises(LostRun, match="do the work in a step"):
        _ = rig.result


def test_a_thread_that_comes_after_the_end_is_ignored() -> None:
    async def body() -> Any:
        return asyncio.get_running_loop().create_future()

    rig = Rig(body).begin()
    future = rig.result
    rig.engine.stop()
    future.set_result(1)


def test_a_step_cannot_wake_its_body_past_the_journal() -> None:
    """Replay would wait for ever: no step runs there. The result is what a step may hand to its body."""
    made: list[Any] = []

    async def body() -> None:
        made.extend([asyncio.Event(), asyncio.get_running_loop().create_future()])
        async with asyncio.TaskGroup() as group:
            group.create_task(made[0].wait())
            group.create_task(fetch())
            await made[1]

    rig = Rig(body).begin()
    with pytest.raises(LostRun, match="let it return"):  # the code of a step runs between the turns of the body
        made[0].set()
    with pytest.raises(LostRun, match="let it return"):
        made[1].set_result(1)
    rig.finish("main/fetch#1")
    with pytest.raises(LostRun, match="let it return"):
        _ = rig.result


def test_as_completed_over_bare_coroutines_is_refused() -> None:
    async def work() -> None:
        await fetch()

    async def body() -> None:
        todo = [work(), work()]
        try:
            for each in asyncio.as_completed(todo):
                await each
        finally:
            for coroutine in todo:
                coroutine.close()

    with pytest.raises(NotDeterministic, match="pass tasks: as_completed"):
        _ = Rig(body).begin().result


def test_as_completed_over_other_awaitables_is_refused() -> None:
    class Later:
        def __await__(self) -> Iterator[Any]:
            return fetch().__await__()

    async def body() -> None:
        for each in asyncio.as_completed([Later(), Later()]):
            await each

    with pytest.raises(NotDeterministic, match="pass tasks: as_completed"):
        _ = Rig(body).begin().result


def test_as_completed_gives_tasks_and_calls_in_the_order_of_their_outcomes() -> None:
    async def work(i: int) -> int:
        return int(await fetch(i))

    async def body() -> list[int]:
        tasks = [asyncio.create_task(work(i)) for i in range(3)]
        seen = [await each for each in asyncio.as_completed(tasks)]
        return seen + [await each for each in asyncio.as_completed([save(i) for i in range(3)])]

    rig = Rig(body).begin()
    assert rig.starts == ["main.work#1/fetch#1", "main.work#2/fetch#1", "main.work#3/fetch#1"]
    for n in (3, 1, 2):
        rig.finish(f"main.work#{n}/fetch#1", n)
    assert rig.starts[3:] == ["main/save#1", "main/save#2", "main/save#3"]
    for n in (2, 3, 1):
        rig.finish(f"main/save#{n}", 10 + n)
    assert rig.result == [3, 1, 2, 12, 13, 11]
    rig.must_replay()


# -- a context that has lost its run -----------------------------------------------------


@pytest.mark.parametrize(
    "use",
    [
        fetch,
        lambda: asyncio.sleep(1),
        lambda: asyncio.wait_for(asyncio.Future(), 1),
        lambda: asyncio.create_task(asyncio.sleep(0)),
    ],
)
def test_what_is_used_in_a_fresh_context_raises(use: Callable[[], Any]) -> None:
    async def body() -> None:
        token = here.set(None)  # what code that replaces the context comes to
        try:
            await use()
        finally:
            here.reset(token)

    with pytest.raises(LostRun, match="lost its run"):
        _ = Rig(body).begin().result


def test_a_task_in_a_context_of_its_own_stays_in_its_run() -> None:
    variable = contextvars.ContextVar("variable", default="outer")

    async def work() -> str:
        await fetch()
        return variable.get()

    async def body() -> list[str]:
        context = contextvars.Context()
        context.run(variable.set, "inner")
        task = asyncio.create_task(work(), context=context)
        return [await task, await asyncio.create_task(work()), variable.get()]

    rig = Rig(body).begin()
    rig.finish("main.work#1/fetch#1")
    rig.finish("main.work#2/fetch#1")
    assert rig.result == ["inner", "outer", "outer"]


def test_a_body_sees_no_context_variable_of_its_worker() -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("of the worker")

    async def body() -> str:
        return variable.get()

    assert Rig(body).begin().result == "unset"
