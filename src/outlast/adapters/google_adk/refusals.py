"""What cannot be kept across a crash, and is refused by name when it is come to."""

from __future__ import annotations

from weakref import ReferenceType, WeakKeyDictionary, ref

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.loop_agent import LoopAgent
from google.adk.agents.parallel_agent import ParallelAgent
from google.adk.agents.sequential_agent import SequentialAgent
from google.adk.code_executors import BuiltInCodeExecutor
from google.adk.sessions import BaseSessionService, InMemorySessionService

from outlast.adapters.google_adk.places import operations
from outlast.adapters.google_adk.sessions import Sessions
from outlast.core.effects import Operations
from outlast.core.errors import WrongUse

_RUN_AGENTS = (LlmAgent, LoopAgent, ParallelAgent, SequentialAgent)

_written: WeakKeyDictionary[BaseSessionService, dict[tuple[str, str, str], ReferenceType[Operations]]] = (
    WeakKeyDictionary()
)
"""By which execution the sessions were written that are kept in memory."""


def check_agent(agent: BaseAgent) -> None:
    """Raise WrongUse for an agent some of whose calls nobody would record."""
    framework = type(agent).__module__.startswith("google.adk.")
    if framework and not isinstance(agent, _RUN_AGENTS):
        raise WrongUse(
            f"the agent {agent.name} is a {type(agent).__name__}, which makes calls that Outlast does not see and that "
            "would be made again after a crash; make a step of your own of what it does, and call that in a tool"
        )
    executor = getattr(agent, "code_executor", None)
    if executor is not None and not isinstance(executor, BuiltInCodeExecutor):
        raise WrongUse(
            f"the agent {agent.name} executes code by a {type(executor).__name__}, which would execute it again after "
            "a crash; give the agent a tool that executes code, whose calls are steps"
        )


def check_invocation(context: InvocationContext) -> None:
    """Raise WrongUse for a way to run agents that a crash would break."""
    config = context.run_config
    if context.live_request_queue is not None or (config is not None and config.support_cfc):
        raise WrongUse(
            "run_live and support_cfc talk to a model in both directions at once, and such a talk cannot be told from "
            "a journal; use run_async in a workflow"
        )
    if context.events_compaction_config is not None:
        raise WrongUse(
            "events_compaction_config has a model sum up the session by calls that Outlast does not see, and another "
            "summary after a crash would have the model see another conversation; leave it out in a workflow"
        )


def check_session(context: InvocationContext) -> None:
    """Raise WrongUse for a session that may hold what another execution wrote: the model would see events twice."""
    service, session, execution = context.session_service, context.session, operations()
    assert execution is not None
    if isinstance(service, Sessions):
        return
    if not isinstance(service, InMemorySessionService):
        raise WrongUse(
            f"run {execution.run_id}: {type(service).__name__} stores events as they come, and would hold them twice "
            "after a crash; write session_service=outlast.google_adk.Sessions(...) around it, which stores those of an "
            "invocation once, when it ends"
        )
    key = (session.app_name, session.user_id, session.id)
    written = _written.setdefault(service, {})
    before = written.setdefault(key, ref(execution))
    if before() is not execution:
        raise WrongUse(
            f"run {execution.run_id}: the session {session.id} in memory holds what another execution wrote, of this "
            "run or of another; make the runner and its session service in the workflow's body, or write "
            "session_service=outlast.google_adk.Sessions(...) around it"
        )
