"""Twenty researchers at once, with the OpenAI Agents SDK: a planner asks, they look things up, a writer sums up."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

import outlast
from outlast import App, Retry, workflow
from outlast.openai_agents import install

LIBRARY = Path(os.environ.get("RESEARCH_LIBRARY", "library.txt"))
MODEL = "gpt-5-mini"
QUESTIONS = 20

set_tracing_disabled(True)
client = AsyncOpenAI(base_url=os.environ.get("OPENAI_BASE_URL"), api_key=os.environ.get("OPENAI_API_KEY", "none"))
model = OpenAIChatCompletionsModel(MODEL, client)

# At most 600 calls of this model in a minute, whichever process of the fleet makes them.
install(retry=Retry(attempts=4), rate=outlast.rate(MODEL, 600, per=60))


@function_tool
@outlast.effect("pure")
def look_up(words: str) -> str:
    """Look something up in the library."""
    lines = LIBRARY.read_text() if LIBRARY.exists() else ""
    return next((line for line in lines.splitlines() if words in line), f"nothing is known of {words}")


planner = Agent(name="planner", model=model, instructions=f"Split the topic into {QUESTIONS} questions, a line each.")
researcher = Agent(name="researcher", model=model, instructions="Answer in a line. Look things up.", tools=[look_up])
writer = Agent(name="writer", model=model, instructions="Sum the notes up.")


async def look_into(number: int, question: str) -> str:
    """Answer one of the questions; returns a note."""
    with outlast.scope(f"question-{number}"):
        answer = await Runner.run(researcher, question)
    outlast.publish(f"note-{number}", answer.final_output)
    return f"{question} {answer.final_output}"


@workflow(loop="native", max_tokens=200_000)
async def research(topic: str) -> str:
    """Research a topic; returns a report. Fails with BudgetExceeded once its models have used 200,000 tokens."""
    plan = await Runner.run(planner, topic)
    questions = [line for line in plan.final_output.splitlines() if line.strip()][:QUESTIONS]
    notes = await asyncio.gather(*(look_into(number, question) for number, question in enumerate(questions)))
    return (await Runner.run(writer, "\n".join(notes))).final_output


async def main(topic: str) -> None:
    """Research a topic here, with this process as a worker. Start it again if it dies: it goes on."""
    async with App(os.environ.get("OUTLAST_URL", "sqlite:///research.db")) as app:
        run = await app.start(research(topic), id=f"research-{topic}")
        print(await run.result())
        usage = await run.usage()
        print(f"{usage.spent.total} tokens, {usage.saved.total} saved by replay")


if __name__ == "__main__":
    asyncio.run(main("durable execution"))
