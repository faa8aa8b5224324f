"""The runner: each run of an agent in the body of an Outlast run is a scope, in which its calls are recorded."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from agents import Agent, RunResult, RunResultStreaming, RunState
from agents.run import AgentRunner, get_default_agent_runner, set_default_agent_runner
from pydantic_core import to_json

from outlast.adapters import abreast
from outlast.adapters.journaled import MODEL, in_body
from outlast.adapters.openai_agents import seams
from outlast.adapters.openai_agents.sessions import DurableSession
from outlast.adapters.openai_agents.settings import Entered, Told, entered, scoped
from outlast.core.effects import InBody
from outlast.core.errors import WrongUse
from outlast.core.identity import here
from outlast.core.queues import Rate
from outlast.core.retry import Retry
from outlast.core.settings import Settings

Effect = Literal["pure", "idempotent", "once"]


class DurableRunner(AgentRunner):
    """A runner whose agents survive the process: in an Outlast run, calls of models and of tools are steps.

    `install` makes one and has `Runner.run` use it. Elsewhere than in the body of a run it does what the SDK's own
    runner does.

    - `retry`, `timeout`, `rate`: of calls of models, as those of `@step`. An answer that is streamed is not retried.
    - `effects`: what tools do to the world, by their names: an effect, or what `outlast.effect` takes.
    - `tokens`: the stream of the run that the text of streamed answers is written to; None for none.
    """

    def __init__(
        self,
        *,
        retry: Retry | None = None,
        timeout: float | None = None,
        rate: Rate | tuple[Rate, ...] | None = None,
        effects: Mapping[str, Effect | Mapping[str, Any]] | None = None,
        tokens: str | None = "tokens",
    ) -> None:
        seams.put_in_place()
        model = MODEL.with_(retry=retry, timeout=timeout, rate=rate)
        said = {
            name: Settings().with_(**(effect if isinstance(effect, Mapping) else {"effect": effect}))
            for name, effect in (effects or {}).items()
        }
        self._told = Told(model, said, tokens)

    async def run(self, starting_agent: Agent[Any], input: Any, **kwargs: Any) -> RunResult:
        """Run an agent, as `Runner.run` does. Raises WrongUse for what cannot be recorded."""
        if not in_body():
            return await super().run(starting_agent, input, **kwargs)
        key = _key(starting_agent, input)
        with abreast.alone(key, starting_agent.name), self._enter(key, kwargs):
            return await super().run(starting_agent, input, **kwargs)

    def run_streamed(self, starting_agent: Agent[Any], input: Any, **kwargs: Any) -> RunResultStreaming:
        """Run an agent, as `Runner.run_streamed` does. Raises WrongUse for what cannot be recorded."""
        if not in_body():
            return super().run_streamed(starting_agent, input, **kwargs)
        key = _key(starting_agent, input)
        begun = abreast.begin(key, starting_agent.name)
        try:
            with self._enter(key, kwargs):  # the tasks that it makes take the context with them
                result = super().run_streamed(starting_agent, input, **kwargs)
        except BaseException:
            begun.end(answered=False)
            raise
        begun.over = lambda: result.is_complete
        if result.run_loop_task is not None:
            result.run_loop_task.add_done_callback(lambda _: begun.end(answered=result.final_output is not None))
        return result

    @contextmanager
    def _enter(self, key: str, kwargs: dict[str, Any]) -> Iterator[None]:
        _check(kwargs)
        session = kwargs.get("session")
        if session is not None and type(session) is not DurableSession:
            kwargs["session"] = DurableSession(session)
        outer = entered.get()
        inner = Entered(self._told) if outer is None else Entered(outer.told, outer.depth + 1)
        with scoped(key):
            token = entered.set(inner)
            try:
                yield
            finally:
                entered.reset(token)


def install(
    *,
    retry: Retry | None = None,
    timeout: float | None = None,
    rate: Rate | tuple[Rate, ...] | None = None,
    effects: Mapping[str, Effect | Mapping[str, Any]] | None = None,
    tokens: str | None = "tokens",
) -> DurableRunner:
    """Have `Runner.run` and its like record what agents do in the body of an Outlast run; return the runner.

    Call it once, before agents run. The settings are those of `DurableRunner`. Elsewhere than in a run all is as it
    was. Raises WrongUse for a version of the SDK that is built otherwise.
    """
    runner = DurableRunner(retry=retry, timeout=timeout, rate=rate, effects=effects, tokens=tokens)
    set_default_agent_runner(runner)
    return runner


def _key(agent: Agent[Any], given: Any) -> str:
    """Return what tells a run of an agent from other runs that go on at the same time: the agent and its input."""
    if isinstance(given, RunState):
        given = ["resumed", *(item.call_id for item in given.get_interruptions()), len(given._model_responses)]
    text = to_json(given, bytes_mode="base64", fallback=lambda value: type(value).__qualname__)
    return f"{agent.name}~{hashlib.blake2b(text, digest_size=4).hexdigest()}"


def _check(kwargs: Mapping[str, Any]) -> None:
    place = here.get()
    if isinstance(place, InBody) and not hasattr(place.ops, "scopes"):
        raise WrongUse(
            f"run {place.ops.run_id}: an agent of the OpenAI Agents SDK does I/O of its own, for which the workflow "
            f"{place.ops.workflow} has to run on the worker's loop: @workflow(loop='native')"
        )
    if not isinstance(get_default_agent_runner(), DurableRunner):
        raise WrongUse(
            "agents that run as tools go by the SDK's default runner, which is not a durable one; call "
            "outlast.openai_agents.install() once, before agents run"
        )
    if kwargs.get("conversation_id") is not None:
        raise WrongUse(
            "conversation_id= has the provider keep the conversation, to which a call that is made again after a crash "
            "would add its input again; give the run a session="
        )
    config = kwargs.get("run_config")
    if (config.get("sandbox") if isinstance(config, Mapping) else getattr(config, "sandbox", None)) is not None:
        raise WrongUse("what an agent does in a sandbox cannot be recorded, and would be done again after a crash")
