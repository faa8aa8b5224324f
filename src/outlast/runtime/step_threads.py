"""The threads of sync steps.

They are daemons: when the process ends, nobody waits for them. `concurrent.futures` makes threads that the interpreter
joins at its end, so a program that was told twice to stop would go on until its longest step has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

Task = tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]


class StepThreads:
    """Threads that are started as they are needed, at most so many; what comes then waits its turn."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()  # None ends a thread
        self._lock = threading.Lock()
        self._threads = 0
        self._free = 0  # threads that wait for a task which is not in the queue yet
        self._more = 0  # tasks in the queue that no thread waits for
        self._open = 0  # tasks that have not ended
        self._closed = False

    @property
    def spare(self) -> int:
        """How many tasks would begin at once; below 0, how many wait."""
        return self._most - self._open

    @property
    def unended(self) -> int:
        """How many tasks have not ended. A thread that has done its task lives on for a while, and is none of them."""
        return self._open

    def submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        """Call a function in a thread."""
        future: Future[Any] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("these threads were ended")
            if self._free:
                self._free -= 1
            elif self._threads == self._most or not self._start():
                self._more += 1
            self._open += 1
            future.add_done_callback(self._ended)  # before any other, which may ask what is spare
            self._tasks.put((future, function, args))
        return future

    def _ended(self, _: Future[Any]) -> None:
        with self._lock:
            self._open -= 1

    def close(self) -> None:
        """Cancel what has not begun, and let each thread end after the function that it is in. Waits for nothing."""
        with self._lock:
            self._closed = True
            left = []
            with suppress(Empty):
                while True:
                    left.append(self._tasks.get_nowait())
            for _ in range(self._threads):
                self._tasks.put(None)
        for task in left:
            if task is not None:
                task[0].cancel()

    def _start(self) -> bool:
        """Start one more; False where the system gives no more, and there are others. Raises RuntimeError."""
        thread = threading.Thread(target=self._work, name=f"outlast-step_{self._threads}", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            if not self._threads:
                raise
            return False
        self._threads += 1
        return True

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            _do(*task)
            del task
            with self._lock:
                if self._more:
                    self._more -= 1
                else:
                    self._free += 1


def _do(future: Future[Any], function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = function(*args)
    except BaseException as error:  # noqa: BLE001 - whatever a step raises is its outcome
        future.set_exception(error)
    else:
        future.set_result(result)
