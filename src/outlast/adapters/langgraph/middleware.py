"""`Middleware`: what has the calls of models and tools of an agent recorded, in a graph that is run as a run.

`create_agent` gives each call of its model and of its tools to its middleware, and so does a `ToolNode` to what it is
given as `awrap_tool_call`. What lies between them, LangGraph's own code, is executed again after a crash.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables.base import RunnableBinding
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command
from pydantic import ValidationError

from outlast.adapters.journaled import MODEL
from outlast.adapters.langgraph.asked import digest_of
from outlast.adapters.langgraph.calls import Kept
from outlast.adapters.langgraph.models import count, name_of, telling_usage, text_of
from outlast.adapters.langgraph.tasks import in_task, tool_errors, within
from outlast.adapters.langgraph.tokens import Given, writing_tokens
from outlast.core.effects import InStep
from outlast.core.errors import WrongUse
from outlast.core.identity import here
from outlast.core.marking import effect_of
from outlast.core.records import Effect
from outlast.core.settings import Changes, Settings

Effects = Mapping[str, Any]
Answer = ToolMessage | Command[Any]

METADATA_KEY = "outlast"
"""The key in a tool's `metadata` that says its effect."""

_NOT_IN_NAMES = re.compile(r"[^\w-]")


class Middleware(AgentMiddleware[Any, Any, Any]):
    """Has each call of an agent's model and of its tools recorded as a step, where its graph is run by `durable`.

    `create_agent(..., middleware=[Middleware()])`; after other middleware, so that it is next to the model. For a
    `ToolNode`: `ToolNode(tools, awrap_tool_call=Middleware().awrap_tool_call)`. Elsewhere than in a run it does
    nothing.

    - `effects`: by the names of tools: `"pure"`, `"idempotent"`, `"once"`; a dict of what `outlast.effect` takes, with
      `effect` among it; or False for a tool that runs other agents, whose calls are then recorded one by one. A tool
      can also say so itself: `@outlast.effect(...)` below its decorator, or `metadata={"outlast": "once"}`.
    - `tokens`: the name of a stream of the run: answers are streamed, and their text is written to it as it comes in.
    - `model`: settings of the steps that ask models, as `step.options` takes them: `{"timeout": 60}`.

    Raises WrongUse for settings that cannot be.
    """

    def __init__(
        self, *, effects: Effects | None = None, tokens: str | None = None, model: Changes | None = None
    ) -> None:
        super().__init__()
        self._effects = {name: _given(name, said) for name, said in (effects or {}).items()}
        self._tokens = tokens
        self._model = MODEL.with_(**(model or {}))

    @property
    def name(self) -> str:
        return "Outlast"

    # -- models --------------------------------------------------------------------

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Ask the model, or tell what it has answered."""

        async def ask() -> list[Any]:
            with writing_tokens(self._tokens) as joined:
                return _seen(request, await handler(_asking(request, joined)))

        return _response(await self._call_of(request).call(ask))

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Do so, where the agent is invoked in a thread."""

        def ask() -> list[Any]:
            with writing_tokens(self._tokens, in_thread=True) as joined:
                return _seen(request, handler(_asking(request, joined)))

        return _response(self._call_of(request).call_in_thread(ask))

    def _call_of(self, request: ModelRequest[Any]) -> Kept[list[Any]]:
        key = None if in_task() else _digest(request)
        return Kept("model", self._model, key=key, arguments={"model": name_of(request.model)}, given=_said)

    # -- tools ---------------------------------------------------------------------

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Answer]]
    ) -> Answer:
        """Call the tool, or tell what its call has given."""
        settings = self._settings(request)
        if settings is None:
            with within(_scope(request)):
                return await handler(request)

        async def use() -> Answer:
            errors: list[BaseException] = []
            tool_errors.set(errors)
            return _certain(settings, request, await handler(request), errors)

        return await _call_of(request, settings).call(use)

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Answer]) -> Answer:
        """Do so, where the agent is invoked in a thread."""
        settings = self._settings(request)
        if settings is None:
            with within(_scope(request)):
                return handler(request)

        def use() -> Answer:
            errors: list[BaseException] = []
            tool_errors.set(errors)
            return _certain(settings, request, handler(request), errors)

        return _call_of(request, settings).call_in_thread(use)

    def _settings(self, request: ToolCallRequest) -> Settings | None:
        """Return how a tool's call is run; None for one that is not a step itself."""
        name, tool = request.tool_call["name"], request.tool
        if name not in self._effects:
            said = (getattr(tool, "metadata", None) or {}).get(METADATA_KEY)
            if said is None:
                return effect_of(tool, getattr(tool, "coroutine", None))
            return _given(name, said)
        return self._effects[name]


def _given(name: str, said: Any) -> Settings | None:
    """Return the settings of a tool, as they are given for its name. Raises WrongUse for what is no effect."""
    if said is False:
        return None
    if isinstance(said, Mapping):
        return Settings().with_(**said)
    if said is True or not isinstance(said, str | Settings):
        raise WrongUse(f"the effect of the tool {name} is 'pure', 'idempotent', 'once', a dict or False, not {said!r}")
    return effect_of(name=name, given={name: said})


def _digest(request: ModelRequest[Any]) -> str:
    """Return what tells a model's call from others where no task does: agents may run side by side there."""
    said = [request.system_message, *request.messages] if request.system_message else request.messages
    how = (request.tools, request.tool_choice, request.response_format, request.model_settings)
    return digest_of(request.model, said, *how)


def _response(kept: list[Any]) -> ModelResponse[Any]:
    messages, structured = kept
    return ModelResponse(result=messages, structured_response=structured)


def _said(value: Any) -> list[Any]:
    return [[AIMessage(content=text_of(value))], None]


def _asking(request: ModelRequest[Any], joined: Given) -> ModelRequest[Any]:
    """Return a request of a model that tells its usage, and writes its tokens though a config is bound to it."""
    if not isinstance(here.get(), InStep):
        return request
    model: Any = request.model
    if isinstance(model, RunnableBinding):
        model = model.model_copy(update={"config": joined(model.config), "bound": telling_usage(model.bound)})
    else:
        model = telling_usage(model)
    return request if model is request.model else request.override(model=model)


def _seen(request: ModelRequest[Any], response: ModelResponse[Any]) -> list[Any]:
    """Return what is kept of an answer, and tell what it has used."""
    for message in response.result:
        count(request.model, message)
    return [response.result, response.structured_response]


def _call_of(request: ToolCallRequest, settings: Settings) -> Kept[Answer]:
    call = request.tool_call

    def given(value: Any) -> Answer:
        return ToolMessage(content=text_of(value), name=call["name"], tool_call_id=call["id"])

    name = _NOT_IN_NAMES.sub("_", call["name"])[:200] or "_"
    return Kept(name, settings, key=call["id"], arguments=call["args"], given=given)


def _scope(request: ToolCallRequest) -> str:
    return f"{request.tool_call['name']}:{request.tool_call['id']}"


def _certain(settings: Settings, request: ToolCallRequest, answer: Answer, errors: list[BaseException]) -> Answer:
    """Return a tool's answer, unless it is one that LangGraph has made of an error that leaves a `once` call in doubt.

    Arguments that the tool does not take are no doubt: its function was not called.
    """
    if settings.effect is Effect.ONCE and isinstance(answer, ToolMessage) and answer.status == "error" and errors:
        error, schema = errors[-1], getattr(request.tool, "args_schema", None)
        if not (isinstance(error, ValidationError) and error.title == getattr(schema, "__name__", None)):
            raise error
    return answer
