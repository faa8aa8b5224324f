"""The demo's child processes: started, listened to, killed, and gone when the demo ends, however it ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import outlast

DEADLINE_S = 20.0
LEAVES_WITHIN_S = 3.0
SOURCES = Path(outlast.__file__).parent.parent  # where the children find the same package


class Missing(Exception):
    """Something that the demo waited for did not come."""


@dataclass(frozen=True, slots=True)
class Event:
    """What a child reported; `at` is in seconds on the monotonic clock of this machine."""

    who: str
    name: str
    at: float
    data: dict[str, Any]


@dataclass(slots=True)
class Child:
    """One child process."""

    name: str
    process: asyncio.subprocess.Process
    log: Path
    reader: asyncio.Task[None] | None = None
    may_end: bool = False

    @property
    def pid(self) -> int:
        """The process id."""
        return self.process.pid


@dataclass(slots=True)
class Processes:
    """All children of one demo, and all that they have reported."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    children: dict[str, Child] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def start(self, name: str, module: str, *args: str, may_end: bool = False) -> Child:
        """Start `outlast.cli.demo.MODULE` with these arguments. `may_end`: it is no fault when it ends by itself."""
        log = self.folder / f"{name.replace(' ', '-')}.log"
        path = os.pathsep.join(filter(None, [str(SOURCES), os.environ.get("PYTHONPATH")]))
        with log.open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-P", "-m", f"outlast.cli.demo.{module}", *args),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **self.environment, "PYTHONPATH": path},
                start_new_session=True,  # Ctrl-C is for the demo, which ends them in order
            )
        child = self.children[name] = Child(name, process, log, may_end=may_end)
        child.reader = asyncio.create_task(self._read(child), name=f"read {name}")
        return child

    async def _read(self, child: Child) -> None:
        assert child.process.stdout is not None
        async for line in child.process.stdout:
            data = json.loads(line)
            await self._note(Event(child.name, data.pop("event"), data.pop("at"), data))
        code = await child.process.wait()
        await self._note(Event(child.name, "process.ended", time.monotonic(), {"code": code}))

    async def _note(self, event: Event) -> None:
        async with self._news:
            self.events.append(event)
            self._news.notify_all()

    async def command(self, name: str, **command: Any) -> None:
        """Give a child a command."""
        stdin = self.children[name].process.stdin
        assert stdin is not None
        stdin.write(json.dumps(command).encode() + b"\n")
        await stdin.drain()

    async def event(
        self,
        name: str,
        *,
        who: str | None = None,
        where: Callable[[Event], bool] = lambda _: True,
        after: float = 0.0,
        within_s: float = DEADLINE_S,
        **data: Any,
    ) -> Event:
        """Wait for the first event of this name (and child, and data) since `after`. Raises Missing.

        Does not wait any longer when a child has ended that should not have.
        """

        def fits(event: Event) -> bool:
            known = event.name == name and who in (None, event.who) and event.at >= after and where(event)
            return known and all(event.data.get(key) == value for key, value in data.items())

        what = f"{name} {data}" + (f" of {who}" if who else "")
        try:
            async with asyncio.timeout(within_s), self._news:
                while True:
                    found = next(filter(fits, self.events), None)
                    if found is not None:
                        return found
                    self._check_children(what)
                    await self._news.wait()
        except TimeoutError:
            raise Missing(f"waited {within_s:g} s in vain for: {what}") from None

    def _check_children(self, what: str) -> None:
        for event in self.events:
            child = self.children[event.who]
            if event.name == "process.ended" and not child.may_end:
                code = event.data["code"]
                raise Missing(f"{event.who} ended with code {code} before: {what}. {_last_lines(child.log)}")

    def kill(self, name: str) -> float:
        """Kill a child with SIGKILL, and return when that was."""
        child = self.children[name]
        child.may_end = True
        at = time.monotonic()
        child.process.kill()
        return at

    async def close(self) -> None:
        """End all children: in order where they follow, by SIGKILL where they do not."""
        for child in self.children.values():
            child.may_end = True
            if child.process.stdin is not None:
                child.process.stdin.close()
        ends = [asyncio.ensure_future(child.process.wait()) for child in self.children.values()]
        try:
            if ends:
                await asyncio.wait(ends, timeout=LEAVES_WITHIN_S)
        finally:
            for child in self.children.values():
                if child.process.returncode is None:
                    with contextlib.suppress(ProcessLookupError):
                        child.process.kill()
        await asyncio.gather(*ends, *(child.reader for child in self.children.values() if child.reader))


def _last_lines(log: Path) -> str:
    text = log.read_text(errors="replace").strip()
    return f"Its last words: {text[-2000:]}" if text else "It said nothing."
