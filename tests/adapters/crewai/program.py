"""A crew with parallel tools, a coworker, streamed answers and an approval, and a process that runs it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from crewai import LLM, Agent, Crew, Task
from crewai.agents import agent_executor
from crewai.hooks import register_after_tool_call_hook
from crewai.tools import BaseTool, tool

import outlast
from outlast import App, workflow
from outlast.crewai import durable
from tests.adapters.effects import SETTING, die, effect, find
from tests.adapters.stand_in import Asked, Reply, ToolCall

DELEGATE = "delegate_work_to_coworker"


def says(asked: Asked) -> Reply:
    """What the model says: it is all in the conversation."""
    answers = asked.results()
    if agent_of(asked) == "sub":
        if not answers:
            return Reply(calls=(ToolCall("call-lookup", "lookup", {"word": "refund"}),))
        return Reply(text=f"The book says: {answers['call-lookup']}")
    if not answers:
        asks_sub = {"task": "Say what a refund is.", "context": "It is for Ada.", "coworker": "sub"}
        return Reply(
            text="Let me see.",
            calls=(
                ToolCall("call-rome", "weather", {"city": "Rome"}),
                ToolCall("call-paris", "weather", {"city": "Paris"}),
                ToolCall("call-sub", DELEGATE, asks_sub),
            ),
        )
    if "call-pay" not in answers:
        return Reply(calls=(ToolCall("call-pay", "pay", {"cents": 500}),))
    return Reply(text="All said: " + "; ".join(f"{call} {answers[call]}" for call in sorted(answers)))


def agent_of(asked: Asked) -> str:
    """Return which agent asks."""
    return "sub" if "You are sub" in asked.said(0) else "main"


def name_of(asked: Asked) -> str:
    """Return which request this is, as points have it."""
    return f"{agent_of(asked)}{_turn(asked.messages)}"


def _turn(messages: list[dict[str, Any]]) -> int:
    return 1 + sum(message["role"] == "assistant" for message in messages)


@tool("lookup")
def lookup(word: str) -> str:
    """Look a word up."""
    effect("lookup", word=word)
    return f"{word} is money back"


@tool("weather")
async def weather(city: str) -> str:
    """Tell the weather."""
    effect(f"weather_{city}", city=city)
    return f"{city} is sunny"


class Pay(BaseTool):
    """A tool that is a class."""

    name: str = "pay"
    description: str = "Pay money."

    @outlast.effect("once", confirm=find)
    def _run(self, cents: int) -> str:
        effect("pay", cents=cents)
        return f"paid {cents}"


def model(url: str, **settings: Any) -> LLM:
    """Return the real client of a provider that is at this address."""
    return LLM(model="openai/gpt-4o", base_url=url, api_key="none", **settings)


def make(url: str) -> Crew:
    """Return the crew."""
    shared = model(url)
    main = Agent(
        role="main", goal="Help.", backstory="Kind.", llm=shared, tools=[weather, Pay()], allow_delegation=True
    )
    sub = Agent(role="sub", goal="Know words.", backstory="Read.", llm=shared, tools=[lookup])
    task = Task(description="Answer {who}.", expected_output="An answer.", agent=main)
    return Crew(agents=[main, sub], tasks=[task], stream=True)


def install_killer() -> None:
    """Have the process die in the workflow's body, around steps."""
    ask = agent_executor.get_llm_response

    def asking(**given: Any) -> Any:
        which = f"{given['from_agent'].role}{_turn(given['messages'])}"
        die(f"asks {which}")
        answer = ask(**given)
        die(f"has {which}")
        return answer

    def has_tool(context: Any) -> None:
        args = context.tool_input or {}
        die(f"has {context.tool_name}{'_' + args['city'] if 'city' in args else ''}")

    agent_executor.get_llm_response = asking
    register_after_tool_call_hook(has_tool)


@workflow(loop="native")
async def desk(url: str, form: str) -> dict[str, Any]:
    """Have the crew answer once."""
    crew = durable(make(url), approve=["pay"], to="desk", tokens="tokens")
    streaming = await getattr(crew, form)({"who": "Ada"})
    async for _ in streaming:
        pass
    output = streaming.result
    return {"raw": output.raw, "usage": output.token_usage.model_dump(), "agent": output.tasks_output[0].agent}


def work(store: str, url: str, effects: str, kill: str, form: str) -> None:
    """Be a process: run the crew to its end, or die."""
    SETTING.effects, SETTING.kill = Path(effects), kill
    install_killer()

    async def main() -> None:
        async with App(store) as app:
            run = await app.start(desk(url, form), id="desk-1")
            await run.result()

    asyncio.run(main())
