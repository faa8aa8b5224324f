"""`durable_model`: what has the calls of one model recorded, wherever the code of a run makes them.

For nodes that call a model by themselves; an agent of `create_agent` has `Middleware`. What is returned is a copy of
the model, of a class made of the model's own, so that whatever is built on it (`bind_tools`, `with_structured_output`,
`with_retry`, a chain) calls it as before.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, TypeVar, cast

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk

from outlast.adapters.journaled import MODEL, in_body
from outlast.adapters.langgraph.asked import digest_of, kind_of
from outlast.adapters.langgraph.calls import Kept
from outlast.adapters.langgraph.tokens import writing_tokens
from outlast.core.errors import WrongUse
from outlast.core.settings import Changes, Settings
from outlast.runtime.run_usage import record_usage

M = TypeVar("M", bound=BaseChatModel)


@dataclass(frozen=True)
class _Given:
    settings: Settings
    tokens: str | None


def durable_model(model: M, *, tokens: str | None = None, settings: Changes | None = None) -> M:
    """Return a copy of a chat model whose calls are steps, `model`, where the body of a run makes them.

    A call is known by which model is asked what, so parallel calls are told apart; a node that runs again has to ask
    the same.
    Elsewhere than in a run's body the copy does what the model does. `invoke`, `ainvoke`, `batch`, `abatch`;
    `stream` and `astream` give the whole answer in one piece there.

    - `tokens`: the name of a stream of the run: answers are streamed, and their text is written to it as it comes in.
    - `settings` of the steps, as `step.options` takes them: `{"timeout": 60}`.

    Raises WrongUse for what is no chat model.
    """
    if not isinstance(model, BaseChatModel):
        raise WrongUse(
            f"a {type(model).__name__} is no chat model of LangChain: call durable_model with the model itself, and "
            "bind tools, retries and the like to what it returns"
        )
    copy = model.model_copy()
    kind: Any = next(one for one in type(model).__mro__ if not issubclass(one, _Recorded))
    copy.__class__ = _class_of(kind, _Given(MODEL.with_(**(settings or {})), tokens))
    return copy


@lru_cache(maxsize=100)
def _class_of(kind: type[BaseChatModel], given: _Given) -> type[Any]:
    """Return a class of models of this kind whose calls are recorded; it bears the same name.

    What the copy was made with is the class's, so that what LangChain constructs anew of it has that, too.
    """
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    made: type[Any] = type(kind)(kind.__name__, (_Recorded, kind), names)  # type: ignore[misc]
    made._outlast = given  # not among `names`, of which pydantic would make a private attribute of each model
    return made


class _Recorded:
    """Goes before a model's own class, whose methods it calls in steps."""

    _outlast: ClassVar[_Given]

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> AIMessage:
        if not in_body():
            return cast("AIMessage", super().invoke(input, config, **kwargs))  # type: ignore[misc]
        made, given = _call_of(self, input, kwargs), self._outlast

        def ask() -> AIMessage:
            with writing_tokens(given.tokens, in_thread=True) as joined:
                asked: Any = super(_Recorded, telling_usage(self))
                return _counted(self, asked.invoke(input, joined(config), **kwargs))

        return made.call_in_thread(ask)

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> AIMessage:
        if not in_body():
            return cast("AIMessage", await super().ainvoke(input, config, **kwargs))  # type: ignore[misc]
        made, given = _call_of(self, input, kwargs), self._outlast

        async def ask() -> AIMessage:
            with writing_tokens(given.tokens) as joined:
                asked: Any = super(_Recorded, telling_usage(self))
                return _counted(self, await asked.ainvoke(input, joined(config), **kwargs))

        return await made.call(ask)

    def stream(self, input: Any, config: Any = None, **kwargs: Any) -> Iterator[Any]:
        if in_body():
            yield _as_chunk(self.invoke(input, config, **kwargs))
        else:
            yield from super().stream(input, config, **kwargs)  # type: ignore[misc]

    async def astream(self, input: Any, config: Any = None, **kwargs: Any) -> AsyncIterator[Any]:
        if in_body():
            yield _as_chunk(await self.ainvoke(input, config, **kwargs))
            return
        async for chunk in super().astream(input, config, **kwargs):  # type: ignore[misc]
            yield chunk


def _call_of(model: Any, input: Any, kwargs: dict[str, Any]) -> Kept[AIMessage]:
    digest = digest_of(model, model._convert_input(input).to_messages(), kwargs)
    return Kept("model", model._outlast.settings, key=digest, arguments={"model": name_of(model)}, given=_said)


def _counted(model: Any, message: AIMessage) -> AIMessage:
    count(model, message)
    return message


def count(model: Any, message: BaseMessage) -> None:
    """Tell what an answer of this model has used."""
    usage = message.usage_metadata if isinstance(message, AIMessage) else None
    if usage and (usage["input_tokens"] or usage["output_tokens"]):
        record_usage(
            model=str(message.response_metadata.get("model_name") or name_of(model)),
            input_tokens=usage["input_tokens"],
            output_tokens=usage["output_tokens"],
            cached_tokens=usage.get("input_token_details", {}).get("cache_read") or 0,
        )


def telling_usage(model: Any) -> Any:
    """Return a model that asks for its usage in streams, too, where its provider tells none without being asked.

    Such is OpenAI's API. Its class has a switch, which it leaves open for addresses of others. Who sets it, or asks
    for it by `stream_options`, has that.
    """
    if "stream_usage" in type(model).model_fields and getattr(model, "stream_usage", True) is None:
        return model.model_copy(update={"stream_usage": True})
    return model


def name_of(model: Any) -> str:
    """Return what a model is called."""
    return str(getattr(model, "model_name", None) or getattr(model, "model", None) or type(model).__name__)


def text_of(value: Any) -> str:
    """Return what a `confirm` or a person has said that a call gave, as the text of a message."""
    return value if isinstance(value, str) else json.dumps(value, default=kind_of)


def _said(value: Any) -> AIMessage:
    return AIMessage(content=text_of(value))


def _as_chunk(message: AIMessage) -> AIMessageChunk:
    fields = message.model_dump(exclude={"type", "invalid_tool_calls", "tool_calls"})
    calls = [
        tool_call_chunk(name=call["name"], args=json.dumps(call["args"]), id=call["id"], index=n)
        for n, call in enumerate(message.tool_calls)
    ]
    return AIMessageChunk(**fields, tool_call_chunks=calls, chunk_position="last")
