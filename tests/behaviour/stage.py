"""What the tests of this folder share: a door that steps wait at, and ears for what the runtime tells."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import outlast
from outlast import App, Call, Notice, Run
from outlast.runtime.clock import SystemClock

OpenApp = Callable[..., App]
E = TypeVar("E", bound=BaseException)

LONGEST_BLOCK_S = 15


class Signal:
    """Lets code on any loop or thread wait for a condition that code on any other makes true."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._sleepers: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def change(self, act: Callable[[], None]) -> None:
        """Do something that may make a condition true, and have all who wait look again."""
        with self._changed:
            act()
            sleepers, self._sleepers = self._sleepers, []
            self._changed.notify_all()
        for loop, sleeper in sleepers:
            if not loop.is_closed():
                loop.call_soon_threadsafe(_wake, sleeper)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait in a coroutine."""
        loop = asyncio.get_running_loop()
        while True:
            with self._changed:
                if condition():
                    return
                sleeper = loop.create_future()
                self._sleepers.append((loop, sleeper))
            await sleeper

    def block_until(self, condition: Callable[[], bool]) -> None:
        """Wait in a thread. A thread cannot be stopped, so it gives up before its test's time is over."""
        with self._changed:
            assert self._changed.wait_for(condition, LONGEST_BLOCK_S), "what this thread waited for never came"


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)


class Door:
    """Steps stop here until the test opens it; the test can wait for them to arrive."""

    def __init__(self) -> None:
        self.arrived = 0
        self.is_open = False
        self._signal = Signal()

    def _arrive(self) -> None:
        self.arrived += 1

    def _unlock(self) -> None:
        self.is_open = True

    def _lock(self) -> None:
        self.is_open = False

    def open(self) -> None:
        """Let everyone through, those who are still to come too."""
        self._signal.change(self._unlock)

    def shut(self) -> None:
        """Stop whoever comes from now on."""
        self._signal.change(self._lock)

    async def passed(self) -> None:
        """Go through it in a coroutine."""
        self._signal.change(self._arrive)
        await self._signal.until(lambda: self.is_open)

    def pass_in_thread(self) -> None:
        """Go through it in a thread."""
        self._signal.change(self._arrive)
        self._signal.block_until(lambda: self.is_open)

    async def reached(self, times: int = 1) -> None:
        """Wait until so many have come to it in all."""
        await self._signal.until(lambda: self.arrived >= times)

    def reached_in_thread(self, times: int = 1) -> None:
        """Wait as `reached` does, in a thread."""
        self._signal.block_until(lambda: self.arrived >= times)


class Jumping(SystemClock):
    """A clock whose wall time somebody sets."""

    ahead = 0.0

    def wall(self) -> float:  # type: ignore[override]
        return SystemClock.wall() + self.ahead


class Ears:
    """A listener for `App(on_event=...)` that keeps what it hears, and lets a test wait for it."""

    def __init__(self) -> None:
        self.notices: list[Notice] = []
        self._signal = Signal()

    def __call__(self, notice: Notice) -> None:
        self._signal.change(lambda: self.notices.append(notice))

    def heard(self, name: str, **data: Any) -> list[Notice]:
        """Return the notices of this name that say all of this."""
        return [n for n in list(self.notices) if n.name == name and data.items() <= n.data.items()]

    async def hear(self, name: str, times: int = 1, **data: Any) -> Notice:
        """Wait until such a notice was heard so often; return the last of them."""
        await self._signal.until(lambda: len(self.heard(name, **data)) >= times)
        return self.heard(name, **data)[times - 1]


async def eventually(condition: Callable[[], bool | Awaitable[bool]]) -> None:
    """Wait for what gives no signal of its own, such as the content of a store."""
    while True:
        answer = condition()
        if answer is True or (not isinstance(answer, bool) and await answer):
            return
        await asyncio.sleep(0.002)


async def reaches(run: Run[Any], status: str) -> None:
    """Wait until the run has this status in its store."""

    async def there() -> bool:
        return await run.status() == status

    await eventually(there)


async def has_recorded(run: Run[Any], kind: str) -> None:
    """Wait until something of this kind (`cancel`, `timer`, `step`...) stands in the run's journal."""

    async def there() -> bool:
        return any(s.kind == kind for s in await run.steps())

    await eventually(there)


async def failure(run: Run[Any]) -> BaseException:
    """Return the error that a run ends with."""
    try:
        value = await run.result()
    except Exception as error:  # noqa: BLE001 - whatever it is, the test looks at it
        return error
    raise AssertionError(f"{run} succeeded with {value!r}")


async def failed_with(run: Run[Any], kind: type[E]) -> E:
    """Return the error, of this kind, that a run ends with."""
    error = await failure(run)
    assert isinstance(error, kind), repr(error)
    return error


async def unless_it_ends(run: Run[Any], event: Coroutine[Any, Any, Any]) -> None:
    """Wait for an event in the midst of a run; a run that ends before is a fault, and its error is shown."""
    waits = [asyncio.ensure_future(event), asyncio.ensure_future(run.result())]
    done, pending = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    if waits[0] not in done:
        raise AssertionError(f"{run} ended first, with {waits[1].result()!r}")


async def stuck(run: Run[Any]) -> outlast.RunInfo:
    """Wait until the run is stuck; return what is known of it."""
    error = await failure(run)
    assert isinstance(error, outlast.RunStuck), error
    return await run.info()


class Restart:
    """Stops a run at a point, closes its App there, and lets it go on in another.

    A body says `await restart.point()`; `await restart.result(call)` drives it.
    """

    def __init__(self, open_app: OpenApp) -> None:
        self._open_app = open_app
        self._door = Door()

        @outlast.step(name="restart_point")
        async def point() -> None:
            await self._door.passed()

        self.point = point

    async def run(self, call: Call[Any], **settings: Any) -> str:
        """Run a call up to its point and close the App there; return the run's id."""
        self._door.shut()
        before = self._door.arrived
        async with self._open_app(**settings) as app:
            run = await app.start(call)
            await unless_it_ends(run, self._door.reached(before + 1))
        self._door.open()
        return run.id

    async def result(self, call: Call[Any], **settings: Any) -> Any:
        """Run a call across the restart and return its result, or raise its error."""
        run_id = await self.run(call, **settings)
        async with self._open_app(**settings) as app:
            return await (await app.get(run_id)).result()
