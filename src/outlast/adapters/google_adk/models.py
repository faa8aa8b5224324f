"""Calls of a model as steps. What the framework gets is what is recorded; pieces of an answer pass by live."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from pydantic import PrivateAttr

from outlast.adapters.google_adk.places import operations, scope_here
from outlast.adapters.journaled import journaled
from outlast.core.effects import Operations
from outlast.core.errors import WrongUse
from outlast.core.settings import Settings
from outlast.runtime.operations import idempotency_key
from outlast.runtime.publishing import stream as stream_of
from outlast.runtime.run_usage import record_usage, spent_nothing

_under_way: WeakKeyDictionary[Operations, set[str]] = WeakKeyDictionary()
"""The places of an execution in which a model is being asked: those that run side by side need different ones."""


@dataclass(frozen=True)
class ModelCalls:
    """How models are asked. `tokens`: the stream that text is written to as it comes in."""

    settings: Settings
    tokens: str | None


class StepModel(BaseLlm):
    """Asks another model, each time in a step."""

    _wrapped: BaseLlm = PrivateAttr()
    _place: str = PrivateAttr()
    _calls: ModelCalls = PrivateAttr()

    @classmethod
    def around(cls, model: BaseLlm, place: str, calls: ModelCalls) -> StepModel:
        """Return a model that asks this one, for the agent in this place."""
        made = cls(model=model.model)
        made._wrapped, made._place, made._calls = model, place, calls
        return made

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        if not stream:
            for response in await self._asked(llm_request, None):
                yield response
            return
        pieces: asyncio.Queue[LlmResponse | None] = asyncio.Queue()
        asking = asyncio.create_task(self._asked(llm_request, pieces), name="outlast-model-stream")
        asking.add_done_callback(lambda _: pieces.put_nowait(None))
        try:
            while (piece := await pieces.get()) is not None:
                yield piece
            for response in await asking:
                yield response
        finally:
            if not asking.done():
                asking.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):  # was raised above, or nobody reads on
                await asking

    async def _asked(
        self, request: LlmRequest, pieces: asyncio.Queue[LlmResponse | None] | None
    ) -> Sequence[LlmResponse]:
        execution = operations()
        assert execution is not None
        under_way = _under_way.setdefault(execution, set())
        place = f"{scope_here()}/{self._place}"
        if place in under_way:
            raise WrongUse(
                f"run {execution.run_id}: the agent {self._place} asks its model twice at the same time, so after a "
                "crash nobody can tell which answer is whose; run agents side by side in a scope of their own each: "
                "with outlast.scope('a name')"
            )
        under_way.add(place)
        try:
            return await journaled(
                "model",
                lambda: self._answer(request, pieces),
                encode=_kept,
                decode=_told,
                settings=self._calls.settings,
                key=self._place,
                arguments={"model": request.model or self.model},
            )
        finally:
            under_way.discard(place)

    async def _answer(self, request: LlmRequest, pieces: asyncio.Queue[LlmResponse | None] | None) -> list[LlmResponse]:
        """Ask the model, in the step: return its answer, and pass on the pieces of it as they come in."""
        whole: list[LlmResponse] = []
        out = None if self._calls.tokens is None else stream_of(self._calls.tokens)
        async with contextlib.aclosing(
            self._wrapped.generate_content_async(request, stream=pieces is not None)
        ) as answers:
            async for response in answers:
                if not response.partial:
                    whole.append(response)
                    continue
                if out is not None and (text := _text_of(response)):
                    out.write(text)
                    await out.drain()
                if pieces is not None:
                    pieces.put_nowait(response)
        _name_calls(whole)
        _count(whole, request.model or self.model)
        return whole


def _text_of(response: LlmResponse) -> str:
    parts = (response.content and response.content.parts) or []
    return "".join(part.text for part in parts if part.text and not part.thought)


def _name_calls(responses: list[LlmResponse]) -> None:
    """Give ids to calls of tools that the provider gave none, before they are recorded: steps are named after them."""
    calls = [
        part.function_call
        for response in responses
        for part in (response.content and response.content.parts) or []
        if part.function_call is not None
    ]
    for n, call in enumerate(calls):
        if not call.id:
            call.id = f"adk-{idempotency_key()}-{n}"  # the prefix has the framework hide it from the model


def _count(responses: list[LlmResponse], model: str) -> None:
    """Tell the run what an answer used. Each part of an answer has what was used so far."""
    used = [response.usage_metadata for response in responses if response.usage_metadata is not None]
    if any(response.error_code and not response.content for response in responses):
        spent_nothing()
    if used:
        last = used[-1]
        tokens_in = (last.prompt_token_count or 0) + (last.tool_use_prompt_token_count or 0)
        tokens_out = (last.candidates_token_count or 0) + (last.thoughts_token_count or 0)
        if tokens_in or tokens_out:
            record_usage(
                model=responses[-1].model_version or model,
                input_tokens=tokens_in,
                output_tokens=tokens_out,
                cached_tokens=min(last.cached_content_token_count or 0, last.prompt_token_count or 0),
            )


def _kept(responses: Sequence[LlmResponse]) -> list[Any]:
    return [json.loads(response.model_dump_json(exclude_none=True)) for response in responses]


def _told(kept: list[Any]) -> list[LlmResponse]:
    # By way of JSON, in which bytes are text.
    return [LlmResponse.model_validate_json(json.dumps(response)) for response in kept]
