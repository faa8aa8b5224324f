"""Answers of a model as they come in: to the agent's own consumer, and to a stream of the run.

The request itself is a step, which reads the provider's stream to its end and is recorded with the whole answer. While
it does, it passes each event on: into the run's stream, whose readers end with each token once, and through a `Relay`
to whoever consumes the stream in the body (`run_stream`, `node.stream`, the handler of one call of `run`). When the
request is not made, since it is recorded, the consumer is given the answer in the pieces that its text came in, for it
may stop after any of them, and act on what it has read.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import replace
from datetime import datetime
from itertools import accumulate, pairwise
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    ModelResponsePart,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
)
from pydantic_ai.models import CompletedStreamedResponse, Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from outlast.core.effects import InBody
from outlast.core.identity import here
from outlast.core.native_scopes import NativeBranch
from outlast.runtime.operations import now
from outlast.runtime.publishing import stream

Handler = Callable[[RunContext[Any], AsyncIterable[Any]], Awaitable[None]]

Pieces = dict[str, list[int]]
"""By the index of a part of an answer: how many characters its text had in each event."""

_END = object()


class Relay:
    """Hands the events of an answer from the step that reads it to the body of the run, both on one loop."""

    def __init__(self) -> None:
        self._events: asyncio.Queue[Any] = asyncio.Queue()
        self._sizes: dict[str, list[int]] = {}
        self.pieces: Pieces = {}
        """What is recorded of the pieces, when the answer is."""

    def put(self, event: ModelResponseStreamEvent) -> None:
        """Pass an event on."""
        if isinstance(event, PartStartEvent | PartDeltaEvent):
            self._sizes.setdefault(str(event.index), []).append(len(_text_of(event)))
        self._events.put_nowait(event)

    def sizes(self) -> Pieces:
        """Return the pieces that have passed, of those parts that came in several."""
        return {index: sizes for index, sizes in self._sizes.items() if len(sizes) > 1}

    def end(self) -> None:
        """Say that no more will come."""
        self._events.put_nowait(_END)

    async def next(self) -> ModelResponseStreamEvent | None:
        """Return the next event; None after the last."""
        event = await self._events.get()
        if event is _END:
            self.end()
            return None
        return event  # type: ignore[no-any-return]


relay_here: ContextVar[Relay | None] = ContextVar("outlast_relay", default=None)


def passing_on(tokens: str | None, then: Handler | None) -> Handler | None:
    """Return what reads an answer in its step: it passes everything on, and has `then` see it, too."""
    relay = relay_here.get()
    if relay is None and tokens is None:
        return then
    out = None if tokens is None else stream(tokens)

    async def passed(events: AsyncIterable[Any]) -> AsyncIterator[Any]:
        async for event in events:
            if out is not None and (text := _text_of(event)):
                out.write(text)
                await out.drain()
            if relay is not None:
                relay.put(event)
            yield event

    async def read(ctx: RunContext[Any], events: AsyncIterable[Any]) -> None:
        seen = passed(events)
        if then is not None:
            await then(ctx, seen)
        async for _ in seen:  # what the handler has left
            pass

    return read


def _text_of(event: Any) -> str:
    """Return the text that an event of an answer adds to it."""
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""


def _is_on_its_loop(place: InBody) -> bool:
    """Tell whether this code is on the loop on which the steps of its run are made."""
    body = getattr(place.ops, "body", None)
    return isinstance(place.branch.current(), NativeBranch) and body is not None and body.is_here()


class LiveModel(WrapperModel):
    """A model whose requests are steps, and whose streamed answers reach the body while the step reads them."""

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Make the request, or be told what is recorded of it; give the answer as it comes in."""
        place, wrapped = here.get(), self.wrapped
        if not (isinstance(place, InBody) and _is_on_its_loop(place)):
            # A deterministic body, and code in a thread, has a loop to which nothing comes but what is recorded.
            async with wrapped.request_stream(
                messages, model_settings, model_request_parameters, run_context
            ) as completed:
                yield completed
            return
        relay = Relay()

        async def whole() -> StreamedResponse:
            relay_here.set(relay)
            try:
                async with wrapped.request_stream(
                    messages, model_settings, model_request_parameters, run_context
                ) as completed:
                    return completed
            finally:
                relay.end()

        consumer = asyncio.current_task()
        reading = asyncio.create_task(whole(), name="outlast-model-stream")
        try:
            first = await relay.next()
            if first is None:  # nothing came in live
                completed = await reading
                yield InPieces(completed.get(), model_request_parameters, relay.pieces) if relay.pieces else completed
                return
            live = LiveResponse(relay, first, reading, self.wrapped, model_request_parameters)
            try:
                yield live
            except BaseException as stopped:
                # Who stops reading, by `break` or an error of its own, leaves the rest to be recorded: it is paid for,
                # and this code reads the same after a crash. Who is cancelled is in a hurry. The framework closes this
                # in another task than the reader's.
                if isinstance(stopped, GeneratorExit) and consumer is not None and not consumer.cancelling():
                    await live.finish()
                raise
            await live.finish()
        finally:
            if not reading.done():
                reading.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await reading
            elif not reading.cancelled():
                reading.exception()  # it was raised where the answer was read, or nobody read on


class InPieces(CompletedStreamedResponse):
    """An answer that is recorded, in the pieces that its text came in."""

    def __init__(self, response: ModelResponse, parameters: ModelRequestParameters, pieces: Pieces) -> None:
        super().__init__(response, model_request_parameters=parameters, replay_events=True)
        self._pieces = pieces

    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        for index, part in enumerate(self.response.parts):
            for event in _events_of(index, part, self._pieces.get(str(index), [])):
                self._parts_manager.apply_event(event)
                yield event

    def get(self) -> ModelResponse:
        whole = super().get()
        if self._finished:
            return whole
        return replace(whole, parts=self._parts_manager.get_parts(), state=StreamedResponse.get(self).state)


def _events_of(index: int, part: ModelResponsePart, sizes: list[int]) -> Iterator[ModelResponseStreamEvent]:
    """Yield what a part came in as; one event where that is not known, such as of a call of a tool."""
    if not isinstance(part, TextPart) or sum(sizes) != len(part.content):
        yield PartStartEvent(index=index, part=part)
        return
    ends = list(accumulate(sizes))
    yield PartStartEvent(index=index, part=replace(part, content=part.content[: ends[0]]))
    for start, end in pairwise(ends):
        yield PartDeltaEvent(index=index, delta=TextPartDelta(content_delta=part.content[start:end]))


class LiveResponse(StreamedResponse):
    """An answer that comes in. Once it is whole it is the one that is recorded."""

    def __init__(
        self,
        relay: Relay,
        first: ModelResponseStreamEvent,
        reading: asyncio.Task[StreamedResponse],
        model: Model,
        parameters: ModelRequestParameters,
    ) -> None:
        super().__init__(parameters)
        self._relay = relay
        self._first: ModelResponseStreamEvent | None = first
        self._reading = reading
        self._model = model
        self._began = now()
        self._whole: ModelResponse | None = None

    def __aiter__(self) -> AsyncIterator[ModelResponseStreamEvent]:
        # The events are those that the provider's own stream gave, with all that the framework adds to them.
        if self._event_iterator is None:
            self._event_iterator = self._get_event_iterator()
        return self._event_iterator

    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        event, self._first = self._first, None
        while event is not None:
            self._parts_manager.apply_event(event)
            yield event
            event = await self._relay.next()
        await self.finish()
        completed = await self._reading
        async for _ in completed:  # raises what ended the stream, if that ended it
            pass
        self._finished = True

    async def finish(self) -> None:
        """Wait until the answer is recorded, also where the consumer has stopped reading: it is paid for."""
        completed = await self._reading
        self._whole = completed.get()

    async def close_stream(self) -> None:
        """Do nothing: the step reads on to the end."""

    def get(self) -> ModelResponse:
        return self._whole if self._finished and self._whole is not None else super().get()

    @property
    def usage(self) -> RequestUsage:
        return super().usage if self._whole is None else self._whole.usage

    @property
    def model_name(self) -> str:
        name = None if self._whole is None else self._whole.model_name
        return name or self._model.model_name

    @property
    def provider_name(self) -> str | None:
        return self._model.system if self._whole is None else self._whole.provider_name

    @property
    def provider_url(self) -> str | None:
        return self._model.base_url if self._whole is None else self._whole.provider_url

    @property
    def timestamp(self) -> datetime:
        return self._began if self._whole is None else self._whole.timestamp
