"""A streamed answer of a model as a step: its events pass live, its end is recorded.

The step reads the model's stream to its end. Meanwhile its events go through a queue to whoever iterates over the run's
result, and its text to the stream of tokens, if there is one. What is recorded is the event that ends the answer and
has all of it. It reaches the SDK when it is recorded, so nothing is done on the strength of an answer that could still
be lost.

Where the answer is recorded, no model is asked and no event is live. Then it is told as a model would that says each
item at once: whoever puts the pieces together has the same text.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from contextlib import aclosing
from typing import Any, cast

from openai.types.responses import (
    ResponseCompletedEvent,
    ResponseOutputItemAddedEvent,
    ResponseOutputItemDoneEvent,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
    ResponseTextDoneEvent,
)

import outlast
from outlast.adapters.openai_agents import model_errors
from outlast.runtime.run_usage import spent_nothing

Ask = Callable[[], Coroutine[Any, Any, Any]]

ENDS = ("response.completed", "response.incomplete", "response.failed", "response.error", "error")
"""The events that end an answer."""
FAILURES = ("response.failed", "response.error", "error")
"""Those that say that there is none."""


class Streamed:
    """One streamed answer.

    `ask` opens the model's stream, `tokens` is the run's stream for its text, `tell` is told what the answer used.
    """

    def __init__(self, ask: Callable[[], AsyncIterator[Any]], tokens: str | None, tell: Callable[[Any], None]) -> None:
        self._ask = ask
        self._tell = tell
        self._tokens = tokens
        self._live: asyncio.Queue[Any] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()  # of whom is told; the step has the worker's
        self._asked = False

    async def events(
        self, step: Callable[[Callable[[], Coroutine[Any, Any, Any]]], Coroutine[Any, Any, Any]]
    ) -> AsyncIterator[Any]:
        """Yield the events of the answer; `step` records what a function gives."""
        answer = asyncio.ensure_future(step(self._read))
        answer.add_done_callback(lambda _: self._pass_on(None))
        try:
            while (event := await self._live.get()) is not None:
                yield event
            end = answer.result()
            if not self._asked:
                for event in told_again(end):
                    yield event
            if end is not None:
                yield end
        finally:
            if not answer.done():
                answer.cancel()
                await asyncio.wait([answer])

    def _pass_on(self, event: Any) -> None:
        if asyncio.get_running_loop() is self._loop:
            self._live.put_nowait(event)
        else:
            self._loop.call_soon_threadsafe(self._live.put_nowait, event)

    async def _read(self) -> Any:
        """In the step: read the model's stream, and return the event that ends it."""
        self._asked = True
        end = None
        with model_errors.kept():
            async with aclosing(cast("AsyncGenerator[Any, None]", self._ask())) as events:
                async for event in events:
                    if event.type in ENDS:
                        end = event
                        continue
                    self._pass_on(event)
                    if self._tokens is not None and event.type == "response.output_text.delta":
                        tokens = outlast.stream(self._tokens)
                        tokens.write(event.delta)
                        await tokens.drain()
        if getattr(end, "type", None) in FAILURES:
            spent_nothing()
        self._tell(getattr(getattr(end, "response", None), "usage", None))
        return end


def told_again(end: Any) -> Iterator[Any]:
    """Yield the events that lead to this end, as of a model that says each item at once."""
    if not isinstance(end, ResponseCompletedEvent):
        return
    number = 0
    for index, item in enumerate(end.response.output):
        yield ResponseOutputItemAddedEvent(
            item=item, output_index=index, sequence_number=number, type="response.output_item.added"
        )
        number += 1
        for part_index, part in enumerate(item.content if isinstance(item, ResponseOutputMessage) else ()):
            if isinstance(part, ResponseOutputText):
                place: Any = {
                    "content_index": part_index,
                    "item_id": item.id or "",
                    "output_index": index,
                    "logprobs": [],
                }
                yield ResponseTextDeltaEvent(
                    **place, delta=part.text, sequence_number=number, type="response.output_text.delta"
                )
                yield ResponseTextDoneEvent(
                    **place, text=part.text, sequence_number=number + 1, type="response.output_text.done"
                )
                number += 2
        yield ResponseOutputItemDoneEvent(
            item=item, output_index=index, sequence_number=number, type="response.output_item.done"
        )
        number += 1
