"""Agents that a test runs in its own process, whose model is the stand-in that the test scripts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from google.adk.events.event import Event
from google.adk.runners import Runner
from google.genai import types

from outlast import App, Call
from outlast.google_adk import confirmations
from tests.adapters.google_adk.gemini import GeminiStandIn
from tests.adapters.google_adk.program import message_of
from tests.adapters.stand_in import Script, StandIn, serving


@contextmanager
def saying(script: Script, folder: Path) -> Iterator[StandIn]:
    """Have the model say what a script says."""
    with serving(script, folder / "asked", GeminiStandIn) as stand_in:
        yield stand_in


async def converse(runner: Runner, text: str, session_id: str = "s", **options: Any) -> list[Event]:
    """Say something to an agent, have people answer what its tools ask for, and return all that came."""
    message: types.Content | None = message_of(text)
    seen: list[Event] = []
    while message is not None:
        events = [
            event
            async for event in runner.run_async(user_id="u", session_id=session_id, new_message=message, **options)
        ]
        seen += events
        message = await confirmations(events)
    return seen


def said_by(events: list[Event]) -> str:
    """Return the last text."""
    texts = [part.text for event in events for part in (event.content and event.content.parts) or [] if part.text]
    return texts[-1] if texts else ""


async def answer_next(app: App, *, approve: bool = True) -> Any:
    """Answer the next question that is asked of people, and return its data."""
    while not (asked := await app.approvals()):  # noqa: ASYNC110 - a worker makes it, which tells nobody
        await asyncio.sleep(0.01)
    await (app.approve if approve else app.reject)(asked[0].id, by="ada")
    return asked[0].data


async def begun_again(store: str, call: Call[Any]) -> Any:
    """Run a workflow up to what it asks people, and have another worker begin it again and finish it."""
    async with App(store) as app:
        await app.start(call, id="again")
        while not await app.approvals():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    async with App(store) as app:
        await answer_next(app)
        return await (await app.get("again")).result()
