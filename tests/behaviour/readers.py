"""Readers of streams that do as the docs say."""

from __future__ import annotations

from typing import Any

import outlast
from outlast import Retry, Run, StreamItem, StreamReset, step

AGAIN = Retry(attempts=5, initial=0.001, max_delay=0.001)


class Reader:
    """One that follows the protocol: it drops what it is told to, and goes on from the last position that it has."""

    def __init__(self, run: Run[Any], name: str = "tokens", *, final: bool = False) -> None:
        self.run, self.name, self.final = run, name, final
        self.has: list[StreamItem[Any]] = []
        self.resets = 0

    @property
    def values(self) -> list[Any]:
        return [item.value for item in self.has]

    async def read(self, most: int | None = None) -> Reader:
        """Read to the end, or so many things and then be cut off."""
        after = self.has[-1].position if self.has else 0
        things = self.run.stream(self.name, after=after, final=self.final)
        async for thing in things:
            self.take(thing)
            most = None if most is None else most - 1
            if most == 0:
                break
        await things.aclose()  # type: ignore[attr-defined]
        return self

    def take(self, thing: StreamItem[Any] | StreamReset) -> None:
        if isinstance(thing, StreamReset):
            self.resets += 1
            self.has = [item for item in self.has if item.position <= thing.position]
        else:
            assert not self.has or thing.position > self.has[-1].position
            self.has.append(thing)


async def all_of(run: Run[Any], name: str = "tokens", **how: Any) -> list[Any]:
    """Return the values that a reader ends with."""
    return (await Reader(run, name, **how).read()).values


@step(effect="pure")
async def tell(count: int, text: str = "t") -> int:
    """Write so many tokens."""
    tokens = outlast.stream("tokens")
    for n in range(count):
        tokens.write(f"{text}{n}")
        await tokens.drain()
    return count
