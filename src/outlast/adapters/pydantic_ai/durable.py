"""`Durable`: the capability that has an agent's calls recorded in the run in whose workflow the agent is run.

Theory of operation
-------------------

An agent's run is a scope of the workflow's run (`main.[support]`), so sub-agents and agents side by side replay each by
itself. The framework cuts its run into units and hands each to `backend.py`, which makes a step of it. What lies
between the units, the framework's own code, is executed again after a crash and is told what is recorded.

A tool's function runs in its step. In a tool whose effect is False it runs in the workflow's body, in a scope of its
call: there it can run other agents and steps, each recorded by itself.

Messages of an agent carry times. Those that this side makes have the time of what was recorded last, so that a
conversation is the same after a crash, whoever stores it or compares it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID
from weakref import WeakKeyDictionary

from pydantic_ai import RunContext, ToolDefinition
from pydantic_ai.agent import AgentRunResult, EventStreamHandler
from pydantic_ai.capabilities import WrapModelRequestHandler, WrapRunHandler, WrapToolExecuteHandler
from pydantic_ai.durable_exec import (
    JSON_CODEC,
    BaseDurabilityCapability,
    DurabilityEngineSpec,
    DurableOperationId,
    RoleBasedOperationConfig,
    conversation_id_from_run_id,
    external_event_scope,
    replay_scope,
)
from pydantic_ai.messages import ModelRequest, ModelResponse, ToolCallPart
from pydantic_ai.models import Model, ModelRequestContext
from pydantic_ai.tools import AgentDepsT, DeferredToolRequests, DeferredToolResults
from pydantic_core import to_jsonable_python

from outlast.adapters.journaled import MODEL, in_body, journaled
from outlast.adapters.pydantic_ai.backend import StepBackend, tell_usage, tool_here
from outlast.adapters.pydantic_ai.effects import METADATA_KEY, UNMARKED, Effects, calls_of
from outlast.adapters.pydantic_ai.side_by_side import under_way
from outlast.adapters.pydantic_ai.streaming import Handler, LiveModel, passing_on
from outlast.adapters.pydantic_ai.waiting import EventWaiter, allowed
from outlast.core.effects import InBody, InStep, Operations
from outlast.core.errors import WrongUse
from outlast.core.identity import Branch, here, placed
from outlast.core.settings import Changes, Settings

BEGAN = Settings().with_(effect="pure")


class Durable(BaseDurabilityCapability[AgentDepsT]):
    """Has each request to a model and each call of a tool recorded as a step, where the agent is run in a workflow.

    `Agent(..., name="support", capabilities=[Durable()])`, run in a `@workflow(loop="native")`. Elsewhere the agent is
    as it was. It needs a name, and so do its toolsets (`id=`).

    - `effects`: by the names of tools: `"pure"`, `"idempotent"`, `"once"`; a dict of what `outlast.effect` takes, with
      `effect` among it; or False for a tool that runs other agents, whose function then runs in the workflow's body.
      A tool can also say so itself: `@outlast.effect(...)` below its decorator, or `metadata={"outlast": "once"}`.
    - `tokens`: the name of a stream of the run: answers are streamed, and their text is written to it as it comes in.
    - `approvals`: True, or for whom (`to=` of `outlast.approve`): tools that need approval are asked about by
      `outlast.approve`, and the agent goes on with the answers. Without it they end the agent's run, as ever.
    - `model`: settings of the steps that ask models, as `step.options` takes them: `{"timeout": 60}`.
    - `event_stream_handler`: is told of events, each once, in steps.
    - `models`, `name`: as the framework has them: more models by name; another name than the agent's.

    Raises WrongUse for settings that cannot be.
    """

    engine_spec = DurabilityEngineSpec(
        engine_name="Outlast",
        durable_unit_noun="step",
        durable_container_noun="workflow",
        codec=JSON_CODEC,
        # A session with an MCP server lasts as long as the agent's run, and is opened by the step that needs it.
        toolset_lifecycles={"function": "enter-always", "mcp": "enter-in-durable-unit", "dynamic": "enter-never"},
        unsupported_runtime_toolset_kinds=frozenset({"function", "mcp", "dynamic"}),
        tool_config_key=METADATA_KEY,
    )

    def __init__(
        self,
        *,
        effects: Effects | None = None,
        tokens: str | None = None,
        approvals: bool | str = False,
        model: Changes | None = None,
        event_stream_handler: EventStreamHandler[AgentDepsT] | None = None,
        models: Mapping[str, Model] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(models=models, event_stream_handler=event_stream_handler, name=name)
        self._effects = dict(effects or {})
        for tool in self._effects:
            calls_of(None, tool, self._effects)  # says at once what is no effect
        self._tokens = tokens
        self._approvals = approvals
        self._model = MODEL.with_(**(model or {}))
        self._runs: WeakKeyDictionary[Any, dict[str, Branch]] = WeakKeyDictionary()

    # -- what the framework asks of an engine ------------------------------------------

    @property
    def in_durable_context(self) -> bool:
        """Whether this code is in the body of a run, so that what it asks for becomes a step."""
        return in_body()

    def get_durable_operation_backend(self) -> StepBackend:
        """Return what makes steps of the units that the framework hands it."""

        def resolve(operation: DurableOperationId, tool: object | None, name: str) -> Any:
            if tool is None and not name:
                return UNMARKED
            calls = calls_of(tool, name, self._effects)
            if calls is False and getattr(operation, "toolset_kind", "") == "mcp":
                raise WrongUse(f"the tool {name!r} is one of an MCP server, whose calls are steps; give it an effect")
            return calls

        return StepBackend(
            model=self._model,
            agent_name=self.name,
            default_model_id=self.default_model_id,
            config=RoleBasedOperationConfig[Any](
                model={}, event={}, capability={}, tool=UNMARKED, resolve_tool=resolve
            ),
        )

    def get_default_run_id(self) -> str | None:
        """Return an id for the agent's run that is the same in each execution."""
        place = here.get()
        if not isinstance(place, InBody):
            return None
        branch = place.branch.current().scope(self.name)
        run_id = str(UUID(hex=place.ops.draw(f"{branch.path}/!agent"), version=4))
        self._runs.setdefault(place.ops, {})[run_id] = branch
        return run_id

    def get_default_conversation_id(self, run_id: str) -> str | None:
        """Return an id for the conversation that is the same in each execution."""
        return conversation_id_from_run_id(run_id) if self.in_durable_context else None

    def _branch(self, place: InBody, run_id: str) -> Branch:
        runs = self._runs.setdefault(place.ops, {})
        branch = runs.get(run_id)
        if branch is None:  # the run's id is the user's own
            branch = runs[run_id] = place.branch.current().scope(self.name)
        return branch

    # -- around an agent's run -----------------------------------------------------------

    async def wrap_run(self, ctx: RunContext[AgentDepsT], *, handler: WrapRunHandler) -> AgentRunResult[Any]:
        """Run the agent in a scope of its own."""
        place = here.get()
        if not isinstance(place, InBody):
            self._check_step(place)
            return await super().wrap_run(ctx, handler=handler)
        branch = self._branch(place, ctx.run_id or "")
        self._runs[place.ops].pop(ctx.run_id or "", None)
        prompt = _shown(ctx.prompt)
        with (
            under_way(place, self.name, ctx, prompt),
            placed(InBody(place.ops, branch)),
            external_event_scope(EventWaiter()),
            replay_scope(),
        ):
            await journaled(
                "agent",
                _nothing,
                encode=_same,
                decode=_same,
                settings=BEGAN,
                key="prompt",
                arguments={"prompt": prompt},
            )
            result = await super().wrap_run(ctx, handler=handler)
            _give_times(place.ops, result.all_messages(), ctx.run_id)
            return result

    def _check_step(self, place: Any) -> None:
        """Refuse to run an agent in a tool's step where nobody has said that this is meant."""
        tool = tool_here.get()
        if isinstance(place, InStep) and tool is not None and not tool.marked:
            raise WrongUse(
                f"run {place.run_id}: the tool {tool.name!r} runs the agent {self.name!r} in its step {place.step_id}, "
                "where its requests and calls are not recorded one by one, and all are made again after a crash. Give "
                f"the tool metadata={{'{METADATA_KEY}': False}}, so that its function runs in the workflow's body; or "
                "mark it with @outlast.effect('idempotent') where one step for all of it is what you want"
            )

    async def wrap_model_request(
        self, ctx: RunContext[AgentDepsT], *, request_context: ModelRequestContext, handler: WrapModelRequestHandler
    ) -> ModelResponse:
        """Make steps of the requests to the model, and pass on what is streamed."""
        place = here.get()
        if not isinstance(place, InBody):
            response = await super().wrap_model_request(ctx, request_context=request_context, handler=handler)
            if isinstance(place, InStep):  # of a tool, or of the user's own
                tell_usage(response)
            return response
        _give_times(place.ops, request_context.messages, ctx.run_id)

        async def live(request_context: ModelRequestContext) -> ModelResponse:
            request_context.model = LiveModel(request_context.model)
            return await handler(request_context)

        return await super().wrap_model_request(ctx, request_context=request_context, handler=live)

    async def wrap_tool_execute(
        self,
        ctx: RunContext[AgentDepsT],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: WrapToolExecuteHandler,
    ) -> Any:
        """Give a tool's function that runs in the workflow's body a scope of its own."""
        place = here.get()
        said = self._effects.get(call.tool_name, (tool_def.metadata or {}).get(METADATA_KEY))
        if said is not False or not isinstance(place, InBody):
            return await super().wrap_tool_execute(ctx, call=call, tool_def=tool_def, args=args, handler=handler)
        with placed(InBody(place.ops, place.branch.current().scope(call.tool_call_id))):
            return await super().wrap_tool_execute(ctx, call=call, tool_def=tool_def, args=args, handler=handler)

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[AgentDepsT], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        """Ask people about tools that need approval, where that was chosen."""
        if self._approvals is False or not self.in_durable_context:
            return None
        return await allowed(requests, self._approvals if isinstance(self._approvals, str) else "")

    # -- streams, and what tools use up ----------------------------------------------------

    @property
    def has_wrap_run_event_stream(self) -> bool:
        """Whether answers are to be streamed even where the agent's caller does not ask for that."""
        return super().has_wrap_run_event_stream or (self._tokens is not None and self.in_durable_context)

    def _model_stream_event_handler(self) -> EventStreamHandler[AgentDepsT] | None:
        then = super()._model_stream_event_handler()
        return cast("EventStreamHandler[AgentDepsT] | None", passing_on(self._tokens, cast("Handler | None", then)))

    def _durable_run_context(self, ctx: RunContext[AgentDepsT]) -> RunContext[AgentDepsT]:
        guarded, tool = super()._durable_run_context(ctx), tool_here.get()
        if tool is not None:
            guarded.usage = tool.spends(ctx.usage)
        return guarded


def _same(value: Any) -> Any:
    return value


async def _nothing() -> None:
    return None


def _shown(prompt: Any) -> Any:
    return to_jsonable_python(prompt, serialize_unknown=True, bytes_mode="base64")


def _give_times(ops: Operations, messages: list[Any], run_id: str | None) -> None:
    """Give the messages that this side has made since the model's last answer the time of what was recorded last.

    In a thread (`run_sync` in `asyncio.to_thread`), too, where `outlast.now()` is refused.
    """
    at = datetime.fromtimestamp(ops.now(), UTC)
    for message in reversed(messages):
        if not isinstance(message, ModelRequest) or message.run_id not in (None, run_id):
            return
        message.timestamp = at
        for part in message.parts:
            if hasattr(part, "timestamp"):
                part.timestamp = at
