"""A model whose calls are recorded: what `get_model` of the SDK gives in a durable run of an agent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import replace
from typing import Any, cast

from agents import ComputerTool, CustomTool, FunctionTool, Model, ModelResponse, ModelSettings, ShellTool, Tool
from agents.tool import ApplyPatchTool, LocalShellTool

import outlast
from outlast.adapters.journaled import in_body, journaled
from outlast.adapters.openai_agents import model_errors
from outlast.adapters.openai_agents.carrying import carrying
from outlast.adapters.openai_agents.outcomes import same
from outlast.adapters.openai_agents.settings import Entered, durable
from outlast.adapters.openai_agents.streaming import Streamed
from outlast.adapters.openai_agents.tools import settings_of
from outlast.core.errors import WrongUse
from outlast.core.settings import Settings

NAME = "model"
"""The name of the step that a call of a model is."""

_NOT_RECORDED = (ComputerTool, CustomTool, ShellTool, LocalShellTool, ApplyPatchTool)


def get_model(original: Callable[..., Model], agent: Any, run_config: Any) -> Model:
    """Replaces `get_model`, which finds the model of an agent for its next call."""
    model, run = original(agent, run_config), durable()
    if run is None:
        return model
    known = (id(model), agent.name)
    if known not in run.models:
        run.models[known] = RecordedModel(model, agent.name, run)
    return cast("Model", run.models[known])


class RecordedModel:
    """A model, whose two kinds of calls are steps. All else of it, its class too, is that of the user's model."""

    def __init__(self, model: Model, agent: str, run: Entered) -> None:
        self._model = model
        self._agent = agent
        self._run = run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    @property  # type: ignore[misc]  # the SDK asks by isinstance what kind of model it is
    def __class__(self) -> Any:
        return type(self._model)

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        """Ask the model, or return what it is recorded to have said."""
        if not in_body():
            return await self._model.get_response(*args, **kwargs)
        self._check(args, kwargs)

        async def ask() -> ModelResponse:
            with model_errors.kept():
                response = await self._model.get_response(*args, **kwargs)
            self._tell(response.usage)
            return response

        with model_errors.restored():
            response: ModelResponse = await self._step(ask)
            return response

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Ask the model and pass its events on as they come, or tell what it is recorded to have said."""
        if not in_body():
            async for event in self._model.stream_response(*args, **kwargs):
                yield event
            return
        self._check(args, kwargs)
        args, kwargs = _asking_for_usage(args, kwargs)
        tokens = self._run.told.tokens if self._run.depth == 0 else None
        streamed = Streamed(lambda: self._model.stream_response(*args, **kwargs), tokens, self._tell)
        with model_errors.restored():
            async for event in streamed.events(self._step_without_retries):
                yield event

    @property
    def _name(self) -> str:
        return str(getattr(self._model, "model", type(self._model).__name__))

    def _tell(self, usage: Any) -> None:
        """Say in the step what a call used: the SDK's own words for it, or those of a streamed answer."""
        if usage is not None and (usage.input_tokens or usage.output_tokens):
            cached = getattr(usage.input_tokens_details, "cached_tokens", None) or 0
            outlast.record_usage(
                model=self._name,
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cached_tokens=min(cached, usage.input_tokens),
            )

    async def _step_without_retries(self, ask: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Record an answer whose beginning others may have seen: it is not begun again beneath them."""
        return await self._step(ask, self._run.told.model.with_(retry=None))

    async def _step(self, ask: Callable[[], Coroutine[Any, Any, Any]], settings: Settings | None = None) -> Any:
        settings = settings or self._run.told.model
        said = {"agent": self._agent, "model": self._name}
        return await journaled(NAME, carrying(ask), encode=same, decode=same, settings=settings, arguments=said)

    def _check(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        tools: list[Tool] = kwargs["tools"] if "tools" in kwargs else args[3]
        for tool in tools:
            if isinstance(tool, FunctionTool):
                settings_of(tool, self._run)
            elif isinstance(tool, _NOT_RECORDED) and not _is_hosted(tool):
                raise WrongUse(
                    f"agent {self._agent!r} has the tool {tool.name!r}, a {type(tool).__name__}: what it does on this "
                    "machine cannot be recorded, and would be done again after a crash; make it a function_tool"
                )


def _asking_for_usage(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Have a streamed answer tell its usage, of which OpenAI's API says nothing there unless it is asked.

    The SDK asks where the address is OpenAI's own. What the user has said of it stays.
    """
    settings: ModelSettings = kwargs["model_settings"] if "model_settings" in kwargs else args[2]
    if settings.include_usage is not None or any(
        isinstance(extra, dict) and "stream_options" in extra for extra in (settings.extra_args, settings.extra_body)
    ):
        return args, kwargs
    settings = replace(settings, include_usage=True)
    if "model_settings" in kwargs:
        return args, kwargs | {"model_settings": settings}
    return (*args[:2], settings, *args[3:]), kwargs


def _is_hosted(tool: Tool) -> bool:
    """Tell whether a shell is the provider's, in a container of its own."""
    return isinstance(tool, ShellTool) and tool.executor is None
