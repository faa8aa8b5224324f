"""The text of a model's answer, written to a stream of the run as it comes in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.runnables.config import merge_configs, var_child_runnable_config

from outlast.core.effects import InStep
from outlast.core.identity import here
from outlast.runtime.publishing import stream

Given = Callable[[Any], Any]


class _Tokens:
    """What has the two methods below is known to want streams, so models stream though they are asked for the whole."""

    run_inline = True  # in the step
    raise_error = True

    def __init__(self, name: str) -> None:
        self._out = stream(name)

    def tap_output_aiter(self, run_id: UUID, output: Any) -> Any:
        return output

    def tap_output_iter(self, run_id: UUID, output: Any) -> Any:
        return output

    def _write(self, token: Any, chunk: Any) -> bool:
        text = str(chunk.message.text) if chunk is not None and hasattr(chunk, "message") else token
        if isinstance(text, str) and text:
            self._out.write(text)
            return True
        return False


class _InThread(_Tokens, BaseCallbackHandler):
    def on_llm_new_token(self, token: Any, *, chunk: Any = None, **kwargs: Any) -> None:
        self._write(token, chunk)


class _OnLoop(_Tokens, AsyncCallbackHandler):
    async def on_llm_new_token(self, token: Any, *, chunk: Any = None, **kwargs: Any) -> None:
        if self._write(token, chunk):
            await self._out.drain()


def _same(config: Any) -> Any:
    return config


@contextmanager
def writing_tokens(name: str | None, *, in_thread: bool = False) -> Iterator[Given]:
    """Have the models that are asked in a step write what they say to a stream of the run.

    What is yielded makes the config to ask with of one that was given: LangChain has the callbacks of a config replace
    those that it finds around the call, and whatever a model is bound to gives it a config.
    """
    if name is None or not isinstance(here.get(), InStep):
        yield _same
        return
    handler = _InThread(name) if in_thread else _OnLoop(name)

    def joined(config: Any) -> Any:
        given = (config or {}).get("callbacks")
        if given is None:  # those around the call hold
            return config
        return {**config, "callbacks": merge_configs({"callbacks": given}, {"callbacks": [handler]})["callbacks"]}

    around = var_child_runnable_config.get() or {}
    token = var_child_runnable_config.set(merge_configs(around, {"callbacks": [handler]}))
    try:
        yield joined
    finally:
        var_child_runnable_config.reset(token)
