"""The plugin that has an agent's calls recorded in the run in whose workflow the agent runs.

Theory of operation
-------------------

The framework asks its plugins before each agent begins, with the context that it will run the agent in. The plugin
puts a copy of the agent in that context, whose model and tools make steps of their calls. All else, the framework's own
code and the callbacks of agents and plugins, is executed again after a crash and comes to the same calls, which are
told what is recorded. The agents of the user are not changed, and neither is anything outside of a run.

All calls of a run's agents stand in one scope of its journal, so they are told what is recorded in the order in which
it was: agents that ran side by side have their events in the session in the order that they had.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.models.base_llm import BaseLlm
from google.adk.plugins import BasePlugin
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from outlast.adapters import abreast
from outlast.adapters.google_adk.models import ModelCalls, StepModel
from outlast.adapters.google_adk.places import inside, operations, place_of
from outlast.adapters.google_adk.refusals import check_agent, check_invocation, check_session
from outlast.adapters.google_adk.sessions import Sessions
from outlast.adapters.google_adk.tools import Effects, call_key, durable_tool
from outlast.adapters.journaled import MODEL, in_body
from outlast.core.effects import Operations
from outlast.core.retry import Retry


class Plugin(BasePlugin):
    """Has each call of a model and of a tool recorded as a step, where agents run in a workflow.

    `App(name="shop", root_agent=agent, plugins=[Plugin()])`, of the framework, whose runner is run in a
    `@workflow(loop="native")`. Elsewhere nothing changes. Give it first, before other plugins.

    - `effects`: by the names of tools, what a call does to the world: `"pure"`, `"idempotent"` or `"once"`, or a dict
      of what `outlast.effect` takes, and `effect`. It goes before the mark of the tool's function.
    - `tokens`: the name of a stream of the run to which text is written as it comes in, where answers are streamed.
    - `retry`, `timeout`: of each call of a model; as a rule the client library has its own.

    Raises WrongUse, when an agent begins, for what cannot be kept across a crash.
    """

    def __init__(
        self,
        *,
        effects: Effects | None = None,
        tokens: str | None = None,
        retry: Retry | None = None,
        timeout: float | None = None,
        name: str = "outlast",
    ) -> None:
        super().__init__(name)
        self._effects: Effects = dict(effects or {})
        self._calls = ModelCalls(MODEL.with_(retry=retry, timeout=timeout), tokens)

    async def on_user_message_callback(
        self, *, invocation_context: InvocationContext, user_message: types.Content
    ) -> types.Content | None:
        """Refuse sessions that hold what another execution of the run wrote."""
        if in_body():
            check_session(invocation_context)
        return None

    async def before_run_callback(self, *, invocation_context: InvocationContext) -> types.Content | None:
        """Refuse what cannot be kept across a crash."""
        execution, agent = operations(), invocation_context.agent
        if execution is not None:
            check_invocation(invocation_context)
            if agent is not None:
                begun = await abreast.begin_soon(place_of(invocation_context), agent.name)
                _begun.setdefault(execution, {})[invocation_context.invocation_id] = begun
        return None

    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Have the events of this invocation stored."""
        _end(invocation_context, answered=True)
        await _store(invocation_context)

    async def on_run_error_callback(self, *, invocation_context: InvocationContext, error: Exception) -> None:
        """Have the events stored that led to the error."""
        _end(invocation_context, answered=False)
        await _store(invocation_context)

    async def before_agent_callback(
        self, *, agent: BaseAgent, callback_context: CallbackContext
    ) -> types.Content | None:
        """Have the agent's calls be steps."""
        if in_body():
            check_agent(agent)
            if isinstance(agent, LlmAgent):
                context = callback_context._invocation_context
                context.agent = self._durable(agent, place_of(context))
        return None

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """Say in which call of a tool an agent runs that is called as one: each call has a context of its own."""
        if isinstance(tool, AgentTool) and in_body():
            inside.set(call_key(tool_context))
        return None

    def _durable(self, agent: LlmAgent, place: str) -> LlmAgent:
        """Return a copy of an agent whose calls are steps."""
        if isinstance(vars(agent).get(_MODEL), _Models):
            return agent  # an agent that came back to itself
        tools: list[Any] = [durable_tool(tool, self._effects) for tool in agent.tools]
        copy = agent.model_copy(update={"tools": tools})
        vars(copy)[_MODEL] = _Models(agent, place, self._calls)
        return copy


_MODEL = "canonical_model_async"
"""The method that the framework asks for the model which it is about to call, and for nothing else."""


class _Models:
    """Stands in for that method of an agent."""

    def __init__(self, agent: LlmAgent, place: str, calls: ModelCalls) -> None:
        self._agent = agent
        self._place = place
        self._calls = calls

    async def __call__(self, context: ReadonlyContext) -> BaseLlm:
        model = await self._agent.canonical_model_async(context)
        return StepModel.around(model, self._place, self._calls) if in_body() else model


_begun: WeakKeyDictionary[Operations, dict[str, abreast.Begun]] = WeakKeyDictionary()
"""By execution and by their ids: the invocations that are under way."""


def _end(context: InvocationContext, *, answered: bool) -> None:
    execution = operations()
    begun = None if execution is None else _begun.get(execution, {}).pop(context.invocation_id, None)
    if begun is not None:
        begun.end(answered=answered)


async def _store(context: InvocationContext) -> None:
    if in_body() and isinstance(context.session_service, Sessions):
        await context.session_service.store(context.session)
