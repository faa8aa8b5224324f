"""Crews that a test runs in its own process, whose model does what is written in the tasks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from crewai import Agent, Crew, Task
from crewai.llms.providers.openai.completion import OpenAICompletion

from outlast import App, Call
from tests.adapters.crewai.program import model
from tests.adapters.stand_in import Asked, Reply, Script, StandIn, ToolCall, serving


class TextModel(OpenAICompletion):
    """A model that cannot call functions: it says in words what is to be called."""

    def supports_function_calling(self) -> bool:
        return False


def text_model(url: str) -> TextModel:
    """Return one, at this address."""
    return TextModel(model="gpt-4o", base_url=url, api_key="none")


def says(asked: Asked) -> Reply:
    """Do what the newest lines of orders say: `CALL` tools with objects, `ACT` by one in words, then `SAY` something.

    Where the framework wants an object, that which stands behind `JSON`. `FAIL` is an error of the provider's.
    """
    given = "\n".join(str(message.get("content") or "") for message in asked.messages if message["role"] == "user")
    orders = [line.strip().partition(" ") for line in given.splitlines()]
    answers = {call: str(answer) for call, answer in asked.results().items()}
    if asked.body.get("response_format"):
        return Reply(text=([rest for verb, _, rest in orders if verb == "JSON"] or ['{"name": "nobody"}'])[-1])
    acted = "Observation:" in "".join(str(m.get("content") or "") for m in asked.messages if m["role"] != "system")
    for verb, _, rest in orders:
        name, _, objects = rest.partition(" ")
        if verb == "CALL" and not any(call.startswith(f"{name}-") for call in answers):
            calls = [ToolCall(f"{name}-{n}", name, args) for n, args in enumerate(json.loads(f"[{objects}]"))]
            return Reply(text="Let me see.", calls=tuple(calls))
        if verb == "ACT" and not acted:
            return Reply(text=f"Thought: I look.\nAction: {name}\nAction Input: {objects}")
        if verb == "FAIL":
            return Reply(status=400, text="no such model")
    said = [rest for verb, _, rest in orders if verb == "SAY"][-1:] or ["nothing"]
    text = f"{said[0]} {sorted(answers.items())}"
    return Reply(text=text if asked.body.get("tools") or answers else f"Thought: I know.\nFinal Answer: {text}")


@contextmanager
def saying(folder: Path, script: Script = says) -> Iterator[StandIn]:
    """Have the model say what a script says."""
    with serving(script, folder / "asked") as stand_in:
        yield stand_in


def an_agent(url: str, role: str, **fields: Any) -> Agent:
    """Return an agent."""
    return Agent(**{"role": role, "goal": "Help.", "backstory": "Kind.", "llm": model(url)} | fields)


def a_task(agent: Agent, *orders: str, **fields: Any) -> Task:
    """Return a task in which the model is given orders."""
    return Task(**{"description": "\n".join(("Do:", *orders)), "expected_output": "A text.", "agent": agent} | fields)


def one_task(url: str, *orders: str, tools: Any = (), of_task: Any = None, **fields: Any) -> Crew:
    """Return a crew of one agent with one task."""
    agent = an_agent(url, "one", tools=list(tools), **fields)
    return Crew(agents=[agent], tasks=[a_task(agent, *orders, **(of_task or {}))])


def told(output: Any) -> dict[str, Any]:
    """Return what a crew came to."""
    return {
        "raw": output.raw,
        "object": output.pydantic.model_dump() if output.pydantic else output.json_dict,
        "tasks": [[task.agent, task.raw, len(task.tool_failures)] for task in output.tasks_output],
        "usage": output.token_usage.model_dump(),
    }


async def answer_next(app: App, *, approve: bool = True, note: str = "") -> Any:
    """Answer the next question that is asked of people, and return its data."""
    while not (asked := await app.approvals()):  # noqa: ASYNC110 - a worker makes it, which tells nobody
        await asyncio.sleep(0.01)
    await (app.approve if approve else app.reject)(asked[0].id, by="ada", note=note)
    return asked[0].data


async def begun_again(store: str, call: Call[Any]) -> Any:
    """Run a workflow up to what it asks people, and have another worker begin it again and finish it."""
    async with App(store) as app:
        run = await app.start(call, id="again")
        while not await app.approvals():
            if run.status in ("failed", "stuck"):
                await run.result()
            await asyncio.sleep(0.01)
            run = await app.get("again")
    async with App(store) as app:
        await answer_next(app)
        return await (await app.get("again")).result()
