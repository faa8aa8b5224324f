"""An agent with parallel tools, a sub-agent, a streamed answer and an approval, and a process that runs it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI
from pydantic_ai import Agent, RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

import outlast
from outlast import App, workflow
from outlast.pydantic_ai import Durable
from tests.adapters.effects import SETTING, die, effect, find
from tests.adapters.stand_in import Asked, Reply, ToolCall


class Killer(AbstractCapability[Any]):
    """Dies in the workflow's body, around steps."""

    async def before_model_request(self, ctx: RunContext[Any], request_context: Any) -> Any:
        die(f"asks {ctx.agent.name}{ctx.run_step}")
        return request_context

    async def after_model_request(self, ctx: RunContext[Any], *, request_context: Any, response: Any) -> Any:
        die(f"has {ctx.agent.name}{ctx.run_step}")
        return response

    async def after_tool_execute(
        self, ctx: RunContext[Any], *, call: Any, tool_def: Any, args: Any, result: Any
    ) -> Any:
        die(f"has {call.tool_name}{'_' + args['city'] if 'city' in args else ''}")
        return result


def says(asked: Asked) -> Reply:
    """What the model says: it is all in the conversation."""
    answers = asked.results()
    if asked.said(0) == "what is a refund?":
        if not answers:
            return Reply(calls=(ToolCall("s1", "lookup", {"word": "refund"}),))
        return Reply(text=f"The book says: {answers['s1']}")
    if not answers:
        return Reply(
            text="Let me see.",
            calls=(
                ToolCall("w1", "weather", {"city": "Rome"}),
                ToolCall("w2", "weather", {"city": "Paris"}),
                ToolCall("a1", "ask", {"question": "what is a refund?"}),
            ),
        )
    if "p1" not in answers:
        return Reply(calls=(ToolCall("p1", "pay", {"cents": 500}),))
    return Reply(text="All said: " + "; ".join(f"{call} {answers[call]}" for call in sorted(answers)))


def name_of(asked: Asked) -> str:
    """Return which request this is, as points have it."""
    agent = "sub" if asked.said(0) == "what is a refund?" else "main"
    return f"{agent}{1 + sum(message['role'] == 'assistant' for message in asked.messages)}"


def model(url: str) -> OpenAIChatModel:
    """Return the real client of a provider that is at this address."""
    client = AsyncOpenAI(base_url=url, api_key="none", max_retries=0)
    return OpenAIChatModel("stand-in", provider=OpenAIProvider(openai_client=client))


def make(url: str) -> Agent[None, str]:
    """Return the agent."""
    sub = Agent(model(url), name="sub", capabilities=[Killer(), Durable()])

    @sub.tool_plain
    def lookup(word: str) -> str:
        effect("lookup", word=word)
        return f"{word} is money back"

    main = Agent(model(url), name="main", capabilities=[Killer(), Durable(tokens="tokens", approvals="desk")])

    @main.tool_plain
    async def weather(city: str) -> dict[str, Any]:
        effect(f"weather_{city}", city=city)
        return {"city": city, "sunny": True}

    @main.tool(metadata={"outlast": False})
    async def ask(ctx: RunContext[None], question: str) -> str:
        return (await sub.run(question, usage=ctx.usage)).output

    @main.tool_plain(requires_approval=True)
    @outlast.effect("once", confirm=find)
    async def pay(cents: int) -> str:
        effect("pay", cents=cents)
        return f"paid {cents}"

    return main


@workflow(loop="native")
async def desk(url: str) -> dict[str, Any]:
    """Have the agent answer once."""
    agent = make(url)
    async with agent:
        result = await agent.run("hello")
    messages = json.loads(result.all_messages_json())
    return {"output": result.output, "requests": result.usage.requests, "messages": messages}


def work(store: str, url: str, effects: str, kill: str) -> None:
    """Be a process: run the agent to its end, or die."""
    SETTING.effects, SETTING.kill = Path(effects), kill

    async def main() -> None:
        async with App(store) as app:
            run = await app.start(desk(url), id="desk-1")
            await run.result()

    asyncio.run(main())
