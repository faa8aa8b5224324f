"""The suite that LangGraph has for checkpointers, over each way to use ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate

from outlast import App, sync
from outlast.langgraph import Saver

METHODS = (
    "get_tuple", "put", "put_writes", "delete_thread", "delete_for_runs", "copy_thread", "prune",
    "get_delta_channel_history",
)  # fmt: skip


class InThreads(BaseCheckpointSaver[str]):
    """The methods for threads of a checkpointer, called from threads by those for event loops."""

    def __init__(self, saver: Saver) -> None:
        super().__init__()
        self.saver = saver

    async def alist(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        for found in await asyncio.to_thread(lambda: list(self.saver.list(*args, **kwargs))):
            yield found


def _in_thread(name: str) -> Callable[..., Awaitable[Any]]:
    async def method(self: InThreads, *args: Any, **kwargs: Any) -> Any:
        return await asyncio.to_thread(partial(getattr(self.saver, name), *args, **kwargs))

    return method


for _name in METHODS:
    setattr(InThreads, f"a{_name}", _in_thread(_name))


async def _with_url(url: str) -> AsyncIterator[BaseCheckpointSaver[str]]:
    async with Saver(url) as saver:
        yield saver


async def _in_threads(url: str) -> AsyncIterator[BaseCheckpointSaver[str]]:
    async with Saver(url) as saver:
        yield InThreads(saver)


async def _with_an_app_of_this_loop(url: str) -> AsyncIterator[BaseCheckpointSaver[str]]:
    async with App(url) as app:
        yield Saver(app)


async def _with_an_app_of_another_loop(url: str) -> AsyncIterator[BaseCheckpointSaver[str]]:
    with sync.App(url) as app:
        yield Saver(app)


@pytest.mark.parametrize("way", [_with_url, _in_threads, _with_an_app_of_this_loop, _with_an_app_of_another_loop])
def test_every_capability_is_there_and_passes(way: Callable[[str], AsyncIterator[Any]], url: str) -> None:
    @checkpointer_test(name=way.__name__)
    async def ours() -> AsyncIterator[BaseCheckpointSaver[str]]:
        async for saver in way(url):
            yield saver

    report = asyncio.run(validate(ours))
    assert {name: result.failures for name, result in report.results.items() if result.passed is not True} == {}
    assert report.passed_all()
