"""A sync body has a thread of its own; one that is stopped ends, or rests where it holds nothing up."""

from __future__ import annotations

import subprocess
import sys
import threading

from outlast import step, workflow
from tests.behaviour.flows import add, executed, step_at
from tests.behaviour.stage import Door, OpenApp, eventually, unless_it_ends


async def test_the_body_has_a_thread_of_its_own_and_its_steps_have_others(open_app: OpenApp) -> None:
    threads: list[str] = []

    @step
    def look() -> None:
        threads.append(threading.current_thread().name)

    @workflow
    def looking() -> None:
        threads.append(threading.current_thread().name)
        look()

    async with open_app() as app:
        await (await app.start(looking(), id="one")).result()
    assert threads[0] == "outlast-one"
    assert threads[1].startswith("outlast-step")


async def test_threads_of_stopped_bodies_end_and_their_clean_up_has_no_effect(open_app: OpenApp) -> None:
    door = Door()
    wait = step_at(door)

    @workflow
    def flow() -> str:
        try:
            wait().result()
        finally:
            add(9, 9)  # while the App is closed this starts nothing
        return "done"

    async with open_app() as app:
        runs = [await app.start(flow(), id=f"run-{n}") for n in range(5)]
        await unless_it_ends(runs[0], door.reached(5))
    assert executed == []
    door.open()
    async with open_app() as app:
        assert [await (await app.get(f"run-{n}")).result() for n in range(5)] == ["done"] * 5
    assert executed == [(9, 9)] * 5


async def test_a_stopped_body_that_goes_on_whatever_is_raised_comes_to_rest(open_app: OpenApp) -> None:
    door = Door()
    wait = step_at(door)

    @workflow
    def stubborn() -> None:
        while True:
            try:
                wait().result()
            except BaseException:  # noqa: BLE001 - that is the fault which is looked at here
                continue

    async with open_app() as app:
        await app.start(stubborn(), id="one")
        await door.reached()
    await eventually(lambda: "stopped outlast-one" in {thread.name for thread in threading.enumerate()})


def test_a_body_at_rest_does_not_keep_the_process_alive() -> None:
    program = """
import sys, threading
from outlast import step, workflow
from outlast.sync import App

waits, resting = threading.Event(), threading.Event()

class Log:  # the thread says that it rests
    def write(self, text): resting.set()
    def flush(self): pass

@step
def wait():
    waits.set()

@workflow
def stubborn():
    while True:
        try:
            wait()
        except BaseException:
            continue

with App("memory://", grace=0) as app:
    app.start(stubborn())
    waits.wait()
    sys.stderr = Log()
resting.wait()
print("closed")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout == "closed\n"
