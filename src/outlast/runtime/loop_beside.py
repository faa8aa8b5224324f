"""The event loop in a thread beside, on which the blocking face of Outlast does what it is asked to."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from outlast.core.errors import WrongUse
from outlast.core.lost import refuse_app

T = TypeVar("T")

CLEAN_UP_S = 5.0
LOOK_FOR_SIGNALS_S = 0.5


class LoopBeside:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._main, name="outlast-loop", daemon=True)
        self._thread.start()

    def _main(self) -> None:
        self._loop.run_forever()
        self._finish()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def _finish(self) -> None:
        """End the tasks that are left: somebody in another thread may still wait for one of them.

        What was given up just now, such as a close in the midst of which Ctrl-C came, may clean up first.
        """
        given_up = [task for task in asyncio.all_tasks(self._loop) if task.cancelling()]
        if given_up:
            self._loop.run_until_complete(asyncio.wait(given_up, timeout=CLEAN_UP_S))
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        if left:
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))

    def wait(self, coro: Coroutine[Any, Any, T]) -> T:
        if os.getpid() != self._pid:
            coro.close()
            raise WrongUse("this App was opened by the parent process; open a new App in the forked child")
        try:
            refuse_app()
        except WrongUse:
            coro.close()
            raise
        if threading.current_thread() is self._thread:
            coro.close()
            raise WrongUse(
                "outlast.sync was called on its own event loop (in an async step?), where it would wait for itself"
            )
        try:
            future = asyncio.run_coroutine_threadsafe(coro, self._loop)
        except RuntimeError:
            coro.close()
            raise WrongUse("this App is not open any more; use its runs inside `with App(...) as app:`") from None
        try:
            if threading.current_thread() is threading.main_thread():
                # A signal that comes just before a lock is waited for is seen when that wait ends, so it has to end.
                while not concurrent.futures.wait((future,), LOOK_FOR_SIGNALS_S).done:
                    pass
            return future.result()
        except concurrent.futures.CancelledError:
            raise WrongUse("the App was closed while this was waited for") from None
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        if os.getpid() == self._pid and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
