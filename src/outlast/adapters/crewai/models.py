"""Calls of a model as steps. The framework gets what is recorded; pieces of an answer pass by live, as its events."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from crewai.llms.base_llm import BaseLLM
from crewai.types.usage_metrics import UsageMetrics
from pydantic import BaseModel

from outlast.adapters.crewai import model_errors
from outlast.adapters.crewai.calls import recorded, recorded_in_thread
from outlast.adapters.crewai.classes import copied
from outlast.adapters.crewai.places import key_here
from outlast.adapters.journaled import in_body
from outlast.core.settings import Settings
from outlast.runtime.publishing import stream as stream_of
from outlast.runtime.run_usage import record_usage

if TYPE_CHECKING:
    Model = BaseLLM
else:
    Model = object  # its methods are mixed into a model's own class

CARRIED = {"_last_response_id": None, "_last_reasoning_items": None, "_previous_thinking_blocks": ()}
"""What models keep from one call for the next, and what they have at first: recorded with the call."""


@dataclass(frozen=True)
class ModelCalls:
    """How models are asked. `tokens`: the stream that text is written to as it comes in."""

    settings: Settings
    tokens: str | None


@dataclass
class Asking:
    """One attempt to ask a model: what it used so far, in the framework's counters."""

    tokens: str | None
    used: dict[str, int] = field(default_factory=dict)


_asking: ContextVar[Asking | None] = ContextVar("outlast_crewai_asking", default=None)
_counting = threading.Lock()


def durable_model(model: BaseLLM, calls: ModelCalls) -> BaseLLM:
    """Return a copy of a model that asks in steps, and has used nothing yet."""
    anew: dict[str, Any] = {name: list(value) if value == () else value for name, value in CARRIED.items()}
    anew["_token_usage"] = dict.fromkeys(model._token_usage, 0)
    return copied(model, StepModel, calls, fields={}, privates=anew)


class StepModel(Model):
    """The behaviour of a model that is asked in steps."""

    _outlast: ModelCalls

    def call(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        """Ask, or tell what is recorded."""
        if not in_body():
            return super().call(messages, *args, **kwargs)  # type: ignore[safe-super]

        def make() -> Any:
            with _told_of(self) as asking, model_errors.kept():
                value = super(StepModel, self).call(messages, *args, **kwargs)  # type: ignore[safe-super]
                return self._came_to(value, asking)

        with model_errors.restored():
            return self._given(recorded_in_thread("model", make, **self._how(args, kwargs)))

    async def acall(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        """Ask, or tell what is recorded."""
        if not in_body():
            return await super().acall(messages, *args, **kwargs)

        async def make() -> Any:
            with _told_of(self) as asking, model_errors.kept():
                return self._came_to(await super(StepModel, self).acall(messages, *args, **kwargs), asking)

        with model_errors.restored():
            return self._given(await recorded("model", make, **self._how(args, kwargs)))

    def _track_token_usage_internal(self, usage_data: dict[str, Any]) -> None:
        asking = _asking.get()
        if asking is None:
            super()._track_token_usage_internal(usage_data)
            return
        metrics = UsageMetrics.from_provider_dict(usage_data)
        for name in self._token_usage if metrics is not None else ():
            asking.used[name] = asking.used.get(name, 0) + getattr(metrics, name)

    def _emit_stream_chunk_event(
        self,
        chunk: str,
        from_task: Any = None,
        from_agent: Any = None,
        tool_call: dict[str, Any] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        super()._emit_stream_chunk_event(chunk, from_task, from_agent, tool_call, *args, **kwargs)
        asking = _asking.get()
        if asking is not None and asking.tokens is not None and chunk and tool_call is None:
            stream_of(asking.tokens).write(chunk)

    def _how(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return how a call with these arguments is recorded."""
        wanted = kwargs.get("response_model") or (args[5] if len(args) > 5 else None)
        form = _Form(wanted or getattr(self, "response_format", None))
        return {
            "encode": form.kept,
            "decode": form.told,
            "settings": self._outlast.settings,
            "key": key_here(),
            "arguments": {"model": self.model},
        }

    def _came_to(self, value: Any, asking: Asking) -> Outcome:
        carried = {name: getattr(self, name) for name in CARRIED if name in (self.__pydantic_private__ or {})}
        return Outcome(value, asking.used, {name: kept for name, kept in carried.items() if kept})

    def _given(self, outcome: Outcome) -> Any:
        """Do to the model what the call did to it that was made, now or before; return what it gave."""
        with _counting:
            for name, n in outcome.used.items():
                self._token_usage[name] = self._token_usage.get(name, 0) + n
        for name, value in outcome.carried.items():
            setattr(self, name, value)
        return outcome.value


@dataclass(frozen=True)
class Outcome:
    """What a call came to: its value, what it used, and what the model keeps of it for the next call."""

    value: Any
    used: dict[str, int]
    carried: dict[str, Any]


@contextmanager
def _told_of(model: StepModel) -> Iterator[Asking]:
    """In the step: count what a call uses, and tell the run."""
    asking = Asking(model._outlast.tokens)
    token = _asking.set(asking)
    try:
        yield asking
    finally:
        _asking.reset(token)
        read = asking.used.get("prompt_tokens", 0)
        written = asking.used.get("completion_tokens", 0)
        if read or written:
            cached = min(asking.used.get("cached_prompt_tokens", 0), read)
            record_usage(model=model.model, input_tokens=read, output_tokens=written, cached_tokens=cached)


_FILLED_IN = "filled_in"


class _Form:
    """How an outcome is kept, and told again. `wanted`: the class of objects that the call was to give, if any.

    Such an object is kept by its fields alone: newer code may have added some.
    """

    def __init__(self, wanted: Any) -> None:
        self._wanted: type[BaseModel] | None = None
        if isinstance(wanted, type) and issubclass(wanted, BaseModel):
            self._wanted = wanted

    def kept(self, outcome: Outcome) -> dict[str, Any]:
        """Return what a journal keeps."""
        value = outcome.value
        kept: dict[str, Any] = {"value": value}
        if self._wanted is not None and type(value) is self._wanted:
            kept = {"value": None, _FILLED_IN: value.model_dump(mode="json")}
        if outcome.used:
            kept["used"] = outcome.used
        if outcome.carried:
            kept["carried"] = outcome.carried
        return kept

    def told(self, kept: Any) -> Outcome:
        """Return what was kept; or what a person said that the call gave."""
        if not (isinstance(kept, dict) and "value" in kept):
            return Outcome(kept, {}, {})
        value = kept["value"]
        if _FILLED_IN in kept and self._wanted is not None:
            value = self._wanted.model_validate(kept[_FILLED_IN])
        return Outcome(value, kept.get("used", {}), kept.get("carried", {}))
