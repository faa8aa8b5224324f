"""A process whose runs use a session that another process uses at the same time.

Its turns wait on a queue for those of the other, or do not. How each has ended is noted.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from agents import Agent, Runner, SQLiteSession, set_tracing_disabled
from agents.models.openai_chatcompletions import OpenAIChatCompletionsModel
from openai import AsyncOpenAI

import outlast
from outlast import App, workflow
from outlast.openai_agents import SessionChanged, install
from tests.adapters.stand_in import Asked, Reply

TURNS = 5

agents: dict[str, Agent[Any]] = {}
chats = outlast.queue("chats", per_key=1)


@workflow(loop="native")
async def turn(folder: str, words: str) -> str:
    """Say something in the session."""
    session = SQLiteSession("ada", Path(folder) / "chats.db")
    try:
        return str((await Runner.run(agents["helper"], words, session=session)).final_output)
    finally:
        session.close()


def says(asked: Asked) -> Reply:
    """Repeat what was said last."""
    return Reply(f"you said {asked.said(-1)}")


async def main(folder: Path, url: str, name: str, at_once: bool) -> None:
    """Start all turns, and wait for them."""
    set_tracing_disabled(True)
    install()
    call = turn if at_once else turn.options(queue=chats, queue_key="ada")
    async with AsyncOpenAI(base_url=url, api_key="none") as client, App(f"sqlite:///{folder}/runs.db") as app:
        agents["helper"] = Agent("helper", model=OpenAIChatCompletionsModel("stand-in", client))
        runs = [(f"{name} {n}", await app.start(call(str(folder), f"{name} {n}"))) for n in range(TURNS)]
        with (folder / name).open("w") as ledger:
            for words, run in runs:
                try:
                    await run.result(timeout=80)
                    ledger.write(f"{words}: said\n")
                except SessionChanged:
                    ledger.write(f"{words}: SessionChanged\n")


def talk(folder: Path, url: str, name: str, at_once: bool) -> None:
    """Do so in this process."""
    asyncio.run(main(folder, url, name, at_once))
