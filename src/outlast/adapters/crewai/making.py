"""How a crew's copy is made, whose calls are steps: its agents, tasks, models, tools, each once."""

from __future__ import annotations

import copy
from typing import Any
from uuid import uuid4

from crewai import Agent, Crew, Process, Task
from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.agents.agent_builder.utilities.base_token_process import TokenProcess
from crewai.agents.cache.cache_handler import CacheHandler
from crewai.llms.base_llm import BaseLLM
from crewai.utilities.llm_utils import create_llm
from crewai.utilities.planning_handler import CrewPlanner

from outlast.adapters.crewai.agents import OfAgent, StepAgent, StepTask
from outlast.adapters.crewai.caching import Cache
from outlast.adapters.crewai.classes import copied, said_of
from outlast.adapters.crewai.models import ModelCalls, durable_model
from outlast.adapters.crewai.refusals import check_agent
from outlast.adapters.crewai.tools import ToolMaker


class Making:
    """Makes copies of what a crew consists of. `to`: who is asked where a task asks people."""

    def __init__(self, calls: ModelCalls, tools: ToolMaker, to: str) -> None:
        self.calls = calls
        self.tools = tools
        self.to = to
        self._made: dict[int, tuple[Any, Any]] = {}  # the user's own are held, so that ids stay theirs

    def anew(self) -> Making:
        """Return one for a copy of a crew: with agents and tasks of its own, and the same tools."""
        return Making(self.calls, self.tools, self.to)

    def crew(self, crew: Crew, behaviour: type[Any]) -> Any:
        """Return a crew whose calls are steps."""
        settings = vars(crew)
        agents = [self.agent(agent) for agent in crew.agents]
        manager_llm = settings["manager_llm"]
        if crew.process is Process.hierarchical and crew.manager_agent is None:
            manager_llm = create_llm(manager_llm)
        planning_llm = settings["planning_llm"]
        if crew.planning:
            planning_llm = create_llm(CrewPlanner([], planning_llm).planning_agent_llm)
        fields = {
            "id": uuid4(),
            "agents": agents,
            "tasks": [self.task(task, n) for n, task in enumerate(crew.tasks, 1)],
            "manager_agent": self.agent(crew.manager_agent) if crew.manager_agent is not None else None,
            "manager_llm": self.model(manager_llm),
            "planning_llm": self.model(planning_llm),
            "chat_llm": self.model(settings["chat_llm"]),
            "function_calling_llm": self.model(settings["function_calling_llm"]),
            "usage_metrics": None,
            "token_usage": None,
            "execution_logs": [],
        }
        privates = {"_cache_handler": self._cache(crew._cache_handler), "_inputs": None, "_kickoff_event_id": None}
        return copied(crew, behaviour, self, fields=fields, privates=privates)

    def agent(self, agent: BaseAgent) -> Agent:
        """Return an agent whose calls are steps. Raises WrongUse for one whose calls cannot be."""
        check_agent(agent)
        assert isinstance(agent, Agent)
        if id(agent) not in self._made:
            self._made[id(agent)] = (agent, self._agent(agent, OfAgent(self, id(agent))))
        made: Agent = self._made[id(agent)][1]
        return made

    def again(self, agent: StepAgent) -> StepAgent:
        """Return the same agent with an executor of its own."""
        made: StepAgent = self._agent(agent, agent._outlast)
        return made

    def _agent(self, agent: Agent, said: OfAgent) -> Any:
        settings = vars(agent)
        handler = agent.tools_handler.model_copy(update={"cache": self._cache(agent.tools_handler.cache)})
        handler.last_used_tool = None
        planning = agent.planning_config
        if planning is not None and planning.llm is not None:
            planning = planning.model_copy(update={"llm": self.model(create_llm(planning.llm))})
        fields = {
            "id": uuid4(),
            "llm": self.model(agent.llm),
            "function_calling_llm": self.model(settings["function_calling_llm"]),
            "planning_config": planning,
            "agent_executor": None,
            "tools": [self.tools.tool(tool) for tool in agent.tools or []],
            "tools_handler": handler,
            "cache_handler": self._cache(agent.cache_handler),
            "tools_results": [],
        }
        privates: dict[str, Any] = {
            "_times_executed": 0,
            "_token_process": TokenProcess(),
            "_tool_failures": [],
            "_last_messages": [],
            "_mcp_resolver": None,
        }
        return copied(agent, StepAgent, said, fields=fields, privates=privates)

    def task(self, task: Task, n: int) -> Task:
        """Return a task, the n-th of its crew, in whose work calls are steps."""
        if id(task) not in self._made:
            made = copied(task, StepTask, n, fields=self._fields_of(task), privates=self._guardrails_of(task))
            self._made[id(task)] = (task, made)
            if isinstance(task.context, list):
                made.__dict__["context"] = [self.task(before, 0) for before in task.context]
        known: Task = self._made[id(task)][1]
        return known

    def _fields_of(self, task: Task) -> dict[str, Any]:
        return {
            "id": uuid4(),
            "agent": self.agent(task.agent) if task.agent is not None else None,
            "output": None,
            "processed_by_agents": set(),
            "used_tools": 0,
            "tools_errors": 0,
            "delegations": 0,
            "retry_count": 0,
            "start_time": None,
            "end_time": None,
        }

    def _guardrails_of(self, task: Task) -> dict[str, Any]:
        return {
            "_guardrail": self._guardrail(task._guardrail),
            "_guardrails": [self._guardrail(guardrail) for guardrail in task._guardrails],
            "_guardrail_retry_counts": {},
        }

    def _guardrail(self, guardrail: Any) -> Any:
        if not isinstance(getattr(guardrail, "llm", None), BaseLLM):
            return guardrail
        made = copy.copy(guardrail)
        made.llm = self.model(guardrail.llm)
        return made

    def model(self, model: Any) -> Any:
        """Return a model that is asked in steps. What is none, or is asked so already, stays as it is."""
        if not isinstance(model, BaseLLM) or said_of(model) is self.calls:
            return model
        if id(model) not in self._made:
            self._made[id(model)] = (model, durable_model(model, self.calls))
        return self._made[id(model)][1]

    def _cache(self, cache: CacheHandler | None) -> CacheHandler | None:
        """Return an empty cache in the place of this one: what is in it would be there in no other process."""
        if cache is None:
            return None
        if id(cache) not in self._made:
            made = Cache()
            self._made[id(cache)] = self._made[id(made)] = (cache, made)  # a copy of a copy has the same
        known: CacheHandler = self._made[id(cache)][1]
        return known
