"""An agent with parallel tools, a sub-agent, a streamed answer and an approval, and a process that runs it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from google.adk.agents import LlmAgent, RunConfig
from google.adk.agents.run_config import StreamingMode
from google.adk.apps.app import App as AgentApp
from google.adk.apps.app import ResumabilityConfig
from google.adk.events.event import Event
from google.adk.models.google_llm import Gemini
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import DatabaseSessionService, InMemorySessionService, Session
from google.adk.tools import FunctionTool, ToolContext
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

import outlast
from outlast import App, workflow
from outlast.google_adk import Plugin, Sessions, confirmations
from tests.adapters.effects import SETTING, die, effect, find
from tests.adapters.stand_in import Asked, Reply, ToolCall


class Killer(BasePlugin):
    """Dies in the workflow's body, around steps."""

    def __init__(self) -> None:
        super().__init__("killer")
        self._asked = ""

    async def before_model_callback(self, *, callback_context: Any, llm_request: LlmRequest) -> None:
        turn = 1 + sum(content.role == "model" for content in llm_request.contents)
        self._asked = f"{callback_context.agent_name}{turn}"
        die(f"asks {self._asked}")

    async def after_model_callback(self, *, callback_context: Any, llm_response: LlmResponse) -> None:
        if not llm_response.partial:
            die(f"has {self._asked}")

    async def after_tool_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any, result: Any
    ) -> None:
        if "error" not in (result if isinstance(result, dict) else {}):
            die(f"has {tool.name}{'_' + tool_args['city'] if 'city' in tool_args else ''}")


def says(asked: Asked) -> Reply:
    """What the model says: it is all in the conversation."""
    answers = asked.results()
    if agent_of(asked) == "sub":
        if not answers:
            return Reply(calls=(ToolCall("", "lookup", {"word": "refund"}),))
        return Reply(text=f"The book says: {answers['lookup-1']}")
    if not answers:
        return Reply(
            text="Let me see.",
            calls=(
                ToolCall("", "weather", {"city": "Rome"}),
                ToolCall("", "weather", {"city": "Paris"}),
                ToolCall("", "sub", {"request": "what is a refund?"}),
            ),
        )
    if "pay-1" not in answers:
        return Reply(calls=(ToolCall("", "pay", {"cents": 500}),))
    return Reply(text="All said: " + "; ".join(f"{call} {answers[call]}" for call in sorted(answers)))


def agent_of(asked: Asked) -> str:
    """Return which agent asks."""
    return "sub" if '"sub"' in asked.said(0) else "main"


def name_of(asked: Asked) -> str:
    """Return which request this is, as points have it."""
    return f"{agent_of(asked)}{1 + sum(message['role'] == 'assistant' for message in asked.messages)}"


def lookup(word: str) -> str:
    """Look a word up."""
    effect("lookup", word=word)
    return f"{word} is money back"


async def weather(city: str, tool_context: ToolContext) -> dict[str, Any]:
    """Tell the weather."""
    effect(f"weather_{city}", city=city)
    tool_context.state[f"weather in {city}"] = "sunny"
    return {"city": city, "sunny": True}


@outlast.effect("once", confirm=find)
async def pay(cents: int) -> str:
    """Pay money."""
    effect("pay", cents=cents)
    return f"paid {cents}"


def model(url: str) -> Gemini:
    """Return the real client of a provider that is at this address."""
    return Gemini(model="gemini-stand-in", base_url=url, client_kwargs={"api_key": "none"})


def make(url: str) -> LlmAgent:
    """Return the agent."""
    sub = LlmAgent(name="sub", model=model(url), description="Knows words.", tools=[lookup])
    tools = [weather, AgentTool(sub), FunctionTool(pay, require_confirmation=True)]
    return LlmAgent(name="main", model=model(url), tools=tools)


def runner_of(
    agent: Any, *, resumable: bool = False, plugins: Sequence[BasePlugin] = (), sessions: Any = None
) -> Runner:
    """Return what runs an agent, with a session service in memory where none is given."""
    resumability = ResumabilityConfig(is_resumable=True) if resumable else None
    app = AgentApp(name="desk", root_agent=agent, plugins=list(plugins), resumability_config=resumability)
    return Runner(app=app, session_service=sessions or InMemorySessionService(), auto_create_session=True)


def message_of(text: str) -> types.Content:
    """Return what a user says."""
    return types.Content(role="user", parts=[types.Part(text=text)])


def told(event: Event) -> list[Any]:
    """Return what an event says, without ids that are drawn at random."""
    said: list[Any] = []
    for part in (event.content and event.content.parts) or []:
        if part.function_call is not None:
            args = dict(part.function_call.args or {})
            if "originalFunctionCall" in args:
                args["originalFunctionCall"] = {**args["originalFunctionCall"], "id": "drawn"}
            said.append(["call", part.function_call.name, args])
        elif part.function_response is not None:
            said.append(["response", part.function_response.name, part.function_response.response])
        else:
            said.append(part.text)
    return [event.author, event.branch, said, event.actions.state_delta]


@workflow(loop="native")
async def desk(url: str, resumable: bool) -> dict[str, Any]:
    """Have the agent answer once."""
    runner = runner_of(make(url), resumable=resumable, plugins=[Plugin(tokens="tokens"), Killer()])
    streamed = RunConfig(streaming_mode=StreamingMode.SSE)
    message: types.Content | None = message_of("hello")
    while message is not None:
        events = [
            event
            async for event in runner.run_async(user_id="u", session_id="s", new_message=message, run_config=streamed)
        ]
        message = await confirmations(events, to="desk")
    session = await runner.session_service.get_session(app_name="desk", user_id="u", session_id="s")
    assert session is not None
    return {"state": dict(session.state), "events": [told(event) for event in session.events]}


class DyingSessions(DatabaseSessionService):
    """Dies around the n-th event that is stored."""

    stored = 0

    async def append_event(self, session: Session, event: Event) -> Event:
        self.stored += 1
        die(f"stores {self.stored}")
        appended = await super().append_event(session, event)
        die(f"stored {self.stored}")
        return appended


@workflow(loop="native")
async def turn(url: str, folder: str, text: str) -> str:
    """Have the agent answer in a session that outlives this run."""
    sessions = DyingSessions(f"sqlite+aiosqlite:///{folder}/sessions.db")
    runner = runner_of(make(url), plugins=[Plugin(), Killer()], sessions=Sessions(sessions))
    message: types.Content | None = message_of(text)
    while message is not None:
        events = [event async for event in runner.run_async(user_id="u", session_id="ada", new_message=message)]
        message = await confirmations(events, to="desk")
    await sessions.close()
    return str(told(events[-1])[2])


def work_turn(store: str, url: str, effects: str, kill: str, resumable: bool) -> None:
    """Be a process: have one turn, or die."""
    SETTING.effects, SETTING.kill = Path(effects), kill

    async def main() -> None:
        async with App(store) as app:
            run = await app.start(turn(url, str(Path(effects).parent), "hello"), id="turn-1")
            await run.result()

    asyncio.run(main())


def work(store: str, url: str, effects: str, kill: str, resumable: bool) -> None:
    """Be a process: run the agent to its end, or die."""
    SETTING.effects, SETTING.kill = Path(effects), kill

    async def main() -> None:
        async with App(store) as app:
            run = await app.start(desk(url, resumable), id="desk-1")
            await run.result()

    asyncio.run(main())
