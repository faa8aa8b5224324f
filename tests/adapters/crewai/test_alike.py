"""Crews do the same in a workflow as without Outlast, and when they are told what is recorded."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crewai import Crew, PlanningConfig, Process
from crewai.tasks.conditional_task import ConditionalTask
from crewai.tools import tool
from crewai.tools.tool_failure import ToolFailure
from pydantic import BaseModel

import outlast
from outlast import workflow
from outlast.crewai import durable
from tests.adapters.crewai.program import model
from tests.adapters.crewai.running import a_task, an_agent, begun_again, one_task, saying, text_model, told

did: Counter[str] = Counter()


class City(BaseModel):
    """What a task may give."""

    name: str
    people: int = 0


@tool("weather")
def weather(city: str) -> dict[str, Any]:
    """Tell the weather."""
    did[f"weather {city}"] += 1
    return {"city": city, "sunny": True}


@tool("news")
async def news(city: str) -> str:
    """Tell the news."""
    did[f"news {city}"] += 1
    await asyncio.sleep(0)
    return f"nothing new in {city}"


@tool("broken")
def broken(city: str) -> str:
    """Fail."""
    did["broken"] += 1
    raise LookupError(f"no {city}")


CALL_TWO = 'CALL weather {"city": "Rome"}, {"city": "Oslo"}'


def _tools(url: str) -> Crew:
    return one_task(url, CALL_TWO, 'CALL news {"city": "Bonn"}', "SAY sunny", tools=[weather, news])


def _in_words(url: str) -> Crew:
    return one_task(url, 'ACT weather {"city": "Rome"}', "SAY sunny", tools=[weather], llm=text_model(url))


def _failing(url: str) -> Crew:
    return one_task(url, 'CALL broken {"city": "Rome"}, {"city": "Oslo"}', "SAY sorry", tools=[broken])


def _failing_in_words(url: str) -> Crew:
    return one_task(url, 'ACT broken {"city": "Rome"}', "SAY sorry", tools=[broken], llm=text_model(url))


def _coworkers(url: str) -> Crew:
    handed = [
        f'{{"task": "CALL weather {{\\"city\\": \\"{city}\\"}}\\nSAY told", "context": "", "coworker": "worker"}}'
        for city in ("Rome", "Oslo")
    ]
    boss = an_agent(url, "boss", allow_delegation=True)
    worker = an_agent(url, "worker", tools=[weather])
    orders = [f"CALL delegate_work_to_coworker {each}\nSAY all" for each in handed]
    return Crew(agents=[boss, worker], tasks=[a_task(boss, each) for each in orders])


def _hierarchical(url: str) -> Crew:
    handed = '{"question": "SAY answer", "context": "", "coworker": "worker"}'
    worker = an_agent(url, "worker", tools=[weather])
    task = a_task(worker, f"CALL ask_question_to_coworker {handed}", "SAY managed")
    return Crew(agents=[worker], tasks=[task], process=Process.hierarchical, manager_llm=model(url))


def _side_by_side(url: str) -> Crew:
    agents = [an_agent(url, f"a{n}", tools=[weather, news]) for n in range(3)]
    first = a_task(agents[0], 'CALL weather {"city": "Rome"}', "SAY first", async_execution=True)
    second = a_task(agents[1], 'CALL weather {"city": "Rome"}', "SAY second", async_execution=True)
    last = a_task(agents[2], "SAY last", context=[first, second])
    skipped = ConditionalTask(
        description="SAY skipped", expected_output="e", agent=agents[0], condition=lambda output: "none" in output.raw
    )
    return Crew(agents=agents, tasks=[first, second, last, skipped, a_task(agents[0], "SAY end")])


def _guarded(url: str) -> Crew:
    def check(output):  # type: ignore[no-untyped-def]  # the framework wants a tuple, and reads no text
        did["checked"] += 1
        return (did["checked"] % 2 == 0, output.raw if did["checked"] % 2 == 0 else "say it again")

    return one_task(url, "SAY guarded", of_task={"guardrail": check})


def _guarded_by_a_model(url: str) -> Crew:
    return one_task(
        url, "SAY guarded", 'JSON {"valid": true, "feedback": null}', of_task={"guardrail": 'JSON {"valid": true}'}
    )


def _an_object(url: str) -> Crew:
    return one_task(url, 'JSON {"name": "Rome", "people": 3}', of_task={"output_pydantic": City})


def _reasoning(url: str) -> Crew:
    plan = '{"plan": "Look.", "steps": [], "ready": true}'
    orders = (f"CALL create_reasoning_plan {plan}", 'CALL weather {"city": "Rome"}', "SAY thought")
    return one_task(url, *orders, tools=[weather], planning_config=PlanningConfig(max_attempts=1))


def _an_object_of_a_text(url: str) -> Crew:
    orders = ('CALL weather {"city": "Rome"}', "SAY Rome")  # of which another request makes an object
    return one_task(url, *orders, tools=[weather], of_task={"output_pydantic": City})


@tool("refusing")
def refusing(city: str) -> ToolFailure:
    """Say that it failed."""
    return ToolFailure(message=f"no {city}")


@tool("typed")
def typed(city: str) -> City:
    """Return an object."""
    return City(name=city, people=1)


def _objects_of_tools(url: str) -> Crew:
    orders = ('CALL refusing {"city": "Rome"}', 'CALL typed {"city": "Rome"}', "SAY both")
    return one_task(url, *orders, tools=[refusing, typed])


class Books:
    """What an agent knows, as far as the framework asks."""

    def query(self, queries: list[str], **options: Any) -> list[Any]:
        """Tell what is known of something."""
        did["looked up"] += 1
        return [{"content": f"{len(queries)} things are known"}]

    async def aquery(self, queries: list[str], **options: Any) -> list[Any]:
        """Tell what is known of something."""
        return self.query(queries, **options)


def _knowing(url: str) -> Crew:
    crew = one_task(url, "SAY known")
    crew.agents[0].__dict__["knowledge"] = Books()
    return crew


def _planned(url: str) -> Crew:
    crew = one_task(url, "SAY planned", 'JSON {"list_of_plans_per_task": []}')
    return Crew(agents=crew.agents, tasks=crew.tasks, planning=True, planning_llm=model(url))


def _cached(url: str) -> Crew:
    crew = one_task(url, 'CALL weather {"city": "Rome"}', "SAY one", tools=[weather])
    agent = crew.agents[0]
    tasks = [*crew.tasks, a_task(agent, 'CALL weather {"city": "Rome"}', "SAY two")]  # type: ignore[arg-type]
    return Crew(agents=[agent], tasks=tasks, cache=True)


def _cached_twice_at_once(url: str) -> Crew:
    both_look = threading.Barrier(2)

    @tool("slow")
    def slow(city: str) -> str:
        """Tell the weather, when both calls have been made."""
        both_look.wait(20)
        did[f"slow {city}"] += 1
        return city

    crew = one_task(url, 'CALL slow {"city": "Rome"}, {"city": "Rome"}', "SAY one", tools=[slow])
    return Crew(agents=crew.agents, tasks=crew.tasks, cache=True)


@tool("rare", max_usage_count=1)
def rare(city: str) -> str:
    """Tell something, once."""
    did["rare"] += 1
    return city


def _rare(url: str) -> Crew:
    return one_task(url, 'CALL rare {"city": "Rome"}, {"city": "Oslo"}', "SAY rarely", tools=[rare])


def _called_back(url: str) -> Crew:
    crew = one_task(url, "SAY {who}", of_task={"callback": lambda output: did.update([f"task {output.raw}"])})
    crew.before_kickoff_callbacks.append(lambda inputs: {**inputs, "who": inputs["who"].upper()})
    crew.after_kickoff_callbacks.append(lambda output: output)
    return crew


CREWS: dict[str, Callable[[str], Crew]] = {
    "tools": _tools,
    "in words": _in_words,
    "failing tools": _failing,
    "failing in words": _failing_in_words,
    "coworkers": _coworkers,
    "hierarchical": _hierarchical,
    "side by side": _side_by_side,
    "guarded": _guarded,
    "guarded by a model": _guarded_by_a_model,
    "an object": _an_object,
    "an object of a text": _an_object_of_a_text,
    "objects of tools": _objects_of_tools,
    "knowing": _knowing,
    "cached": _cached,
    "cached twice at once": _cached_twice_at_once,
    "rare": _rare,
    "reasoning": _reasoning,
    "called back": _called_back,
}


async def kick_off(crew: Crew, form: str) -> Any:
    """Have a crew work, in one of the forms; return what it came to."""
    inputs: Any = {"who": "ada"}
    match form:
        case "kickoff":
            return told(await asyncio.to_thread(crew.kickoff, inputs))
        case "kickoff_for_each":
            outputs = await asyncio.to_thread(crew.kickoff_for_each, [inputs, {"who": "bob"}])
            return [told(output) for output in outputs]
        case "kickoff_for_each_async" | "akickoff_for_each":
            outputs = [told(output) for output in await getattr(crew, form)([inputs, {"who": "bob"}])]
            # The framework's copies count in one place: who was first has counted less.
            return [{**output, "usage": None} for output in outputs]
    return told(await getattr(crew, form)(inputs))


PASSES: list[Any] = []


@workflow(loop="native")
async def crews(which: str, url: str, form: str) -> Any:
    """Have one of the crews work."""
    did.clear()
    came = await kick_off(durable(CREWS[which](url)), form)
    PASSES.append((came, dict(did)))
    await outlast.approve("Go on?")
    return came


def _bare(which: str, url: str, form: str) -> Any:
    did.clear()
    return asyncio.run(kick_off(CREWS[which](url), form)), dict(did)


def _is_alike(which: str, form: str, folder: Path) -> None:
    PASSES.clear()
    with saying(folder) as stand_in:
        bare, bare_did = _bare(which, stand_in.url, form)
        asked = len(stand_in.asked())
        result = asyncio.run(begun_again(f"sqlite:///{folder / 'a.db'}", crews(which, stand_in.url, form)))
        conversations = [sorted(map(str, body["messages"])) for body in stand_in.asked()]
    assert result == bare
    assert [came for came, _ in PASSES] == [bare, bare]
    assert PASSES[0][1] == bare_did
    assert sorted(conversations[:asked]) == sorted(conversations[asked:])  # and nothing was asked in the second pass


@pytest.mark.parametrize("form", ["akickoff", "kickoff_async"])
@pytest.mark.parametrize("which", CREWS)
def test_crews_come_to_the_same(which: str, form: str, tmp_path: Path) -> None:
    _is_alike(which, form, tmp_path)


def test_a_plan_is_made_once_and_told(tmp_path: Path) -> None:
    CREWS["planned"] = _planned  # the framework cannot plan in akickoff
    _is_alike("planned", "kickoff_async", tmp_path)


@pytest.mark.parametrize("form", ["kickoff", "kickoff_for_each", "kickoff_for_each_async", "akickoff_for_each"])
def test_every_form_of_a_kickoff_comes_to_the_same(form: str, tmp_path: Path) -> None:
    _is_alike("called back", form, tmp_path)
