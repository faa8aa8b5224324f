"""The threads of sync steps: as many as needed, never more than allowed, and nobody waits for them at the end."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError, Future
from typing import Any

import pytest

from outlast.runtime.step_threads import StepThreads

WAIT_S = 30.0


class Gate:
    """Functions stop here until it is opened; counts those that have come."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._open = False
        self.inside = 0

    def pass_through(self, value: Any = None) -> Any:
        with self._change:
            self.inside += 1
            self._change.notify_all()
            assert self._change.wait_for(lambda: self._open, WAIT_S)
            self.inside -= 1
        return value

    def reached(self, number: int) -> None:
        with self._change:
            assert self._change.wait_for(lambda: self.inside >= number, WAIT_S)

    def open(self) -> None:
        with self._change:
            self._open = True
            self._change.notify_all()


def names() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("outlast-step")}


def end_of(threads: StepThreads) -> None:
    """Close them, and wait until none is left."""
    running = [thread for thread in threading.enumerate() if thread.name.startswith("outlast-step")]
    threads.close()
    for thread in running:
        thread.join(WAIT_S)
    assert not names()


def test_results_and_errors_come_back() -> None:
    threads = StepThreads(2)
    assert threads.submit(divmod, 7, 2).result(WAIT_S) == (3, 1)
    assert isinstance(threads.submit(divmod, 7, 0).exception(WAIT_S), ZeroDivisionError)
    with pytest.raises(SystemExit):
        threads.submit(exit).result(WAIT_S)
    end_of(threads)


def test_a_free_thread_is_used_before_another_is_started() -> None:
    threads, found = StepThreads(8), set()
    for _ in range(50):
        done = threads.submit(threading.current_thread)
        found.add(done.result(WAIT_S).name)
    assert len(found) <= 2  # a result may be there just before its thread is free
    end_of(threads)


def test_there_are_never_more_than_allowed_and_all_is_done_in_its_turn() -> None:
    threads, gate, order = StepThreads(3), Gate(), list[int]()
    held = [threads.submit(gate.pass_through, n) for n in range(3)]
    gate.reached(3)
    rest = [threads.submit(order.append, n) for n in range(200)]
    assert len(names()) == 3
    assert not any(future.done() for future in rest)
    gate.open()
    for future in rest:
        future.result(WAIT_S)
    assert sorted(order) == list(range(200))
    assert [future.result(WAIT_S) for future in held] == [0, 1, 2]
    assert len(names()) == 3
    end_of(threads)


def test_what_has_not_begun_can_be_cancelled_and_takes_no_thread() -> None:
    threads, gate = StepThreads(1), Gate()
    held = threads.submit(gate.pass_through)
    gate.reached(1)
    given_up, after = threads.submit(int), threads.submit(int)
    assert given_up.cancel()
    assert not held.cancel()
    gate.open()
    assert after.result(WAIT_S) == 0
    end_of(threads)


def test_closing_cancels_what_has_not_begun_and_waits_for_nothing() -> None:
    threads, gate = StepThreads(1), Gate()
    held = threads.submit(gate.pass_through, "ended")
    gate.reached(1)
    told = list[Future[Any]]()
    waiting = threads.submit(int)
    waiting.add_done_callback(told.append)
    threads.close()
    assert told == [waiting]
    with pytest.raises(CancelledError):
        waiting.result(0)
    with pytest.raises(RuntimeError):
        threads.submit(int)
    gate.open()
    assert held.result(WAIT_S) == "ended"
    end_of(threads)


def test_what_has_not_ended_is_tasks_and_never_threads_that_have_nothing_to_do() -> None:
    threads, gate = StepThreads(2), Gate()
    held, waiting = [threads.submit(gate.pass_through) for _ in range(2)], threads.submit(int)
    gate.reached(2)
    assert threads.unended == 3
    threads.close()
    assert waiting.cancelled()
    assert threads.unended == 2
    counts = list[int]()
    held[1].add_done_callback(lambda _: counts.append(threads.unended))  # its thread lives: this is called in it
    gate.open()
    for future in held:
        future.result(WAIT_S)
    end_of(threads)
    assert counts[0] <= 1
    assert threads.unended == 0


def test_they_are_daemons() -> None:
    threads = StepThreads(1)
    assert threads.submit(threading.current_thread).result(WAIT_S).daemon
    end_of(threads)


def test_where_the_system_gives_no_more_threads_the_ones_that_are_there_do_the_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_more(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    threads, gate = StepThreads(3), Gate()
    held = threads.submit(gate.pass_through, "first")
    gate.reached(1)
    monkeypatch.setattr(threading.Thread, "start", no_more)
    second = threads.submit(str, "second")
    gate.open()
    assert (held.result(WAIT_S), second.result(WAIT_S)) == ("first", "second")
    end_of(threads)
    with pytest.raises(RuntimeError, match="new thread"):
        StepThreads(3).submit(str)
