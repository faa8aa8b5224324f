"""Answers that come in piece by piece: live to the agent's consumer, once to the readers of the run's stream."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent, RunConfig
from google.adk.agents.run_config import StreamingMode
from google.genai.errors import ClientError

import outlast
from outlast import App, workflow
from outlast.google_adk import Plugin
from tests.adapters.google_adk.program import message_of, model, runner_of
from tests.adapters.google_adk.running import begun_again, saying
from tests.adapters.stand_in import Asked, Reply

pytestmark = pytest.mark.filterwarnings("default")  # the framework says that much of it is experimental

STREAMED = RunConfig(streaming_mode=StreamingMode.SSE)


def test_pieces_come_live_and_the_whole_answer_alone_is_told_again(tmp_path: Path) -> None:
    heard = threading.Event()
    passes: list[list[str]] = []

    def script(asked: Asked) -> Reply:
        # The rest is sent once the body has had the first piece.
        return Reply(text="one two three", before=lambda n: assert_heard() if n == 1 else None)

    def assert_heard() -> None:
        assert heard.wait(20)

    @workflow(loop="native")
    async def streaming(url: str) -> list[str]:
        runner = runner_of(LlmAgent(name="main", model=model(url)), plugins=[Plugin(tokens="tokens")])
        passes.append([])
        async for event in runner.run_async(
            user_id="u", session_id="s", new_message=message_of("go"), run_config=STREAMED
        ):
            text = "".join(part.text or "" for part in (event.content and event.content.parts) or [])
            passes[-1].append(f"{'piece' if event.partial else 'whole'}: {text}")
            heard.set()
        await outlast.approve("Go on?")
        return passes[-1]

    async def main(url: str) -> None:
        store = f"sqlite:///{tmp_path / 'a.db'}"
        result = await begun_again(store, streaming(url))
        assert passes[0][:2] == ["piece: one", "piece:  two"]
        assert passes[0][-1] == "whole: one two three"
        assert passes[1] == result == ["whole: one two three"]
        async with App(store, worker=False) as app:
            run = await app.get("again")
            items = [item.value async for item in run.stream("tokens")]
        assert "".join(items) == "one two three"

    with saying(script, tmp_path) as stand_in:
        asyncio.run(main(stand_in.url))
        assert len(stand_in.asked()) == 1


def test_a_consumer_that_stops_reading_ends_the_call(tmp_path: Path) -> None:
    @workflow(loop="native")
    async def leaving(url: str) -> str:
        runner = runner_of(LlmAgent(name="main", model=model(url)), plugins=[Plugin()])
        events = runner.run_async(user_id="u", session_id="s", new_message=message_of("go"), run_config=STREAMED)
        async for event in events:
            assert event.partial
            break
        await events.aclose()
        return "left"

    async def main(url: str) -> None:
        async with App("memory://") as app:
            assert await (await app.start(leaving(url))).result(timeout=30) == "left"

    with saying(lambda asked: Reply(text="one two three"), tmp_path) as stand_in:
        asyncio.run(main(stand_in.url))


@pytest.mark.parametrize("mode", ["NONE", "SSE"])
def test_what_a_model_raises_is_raised_as_without_outlast_and_asked_once(mode: str, tmp_path: Path) -> None:
    config = RunConfig(streaming_mode=StreamingMode[mode])

    async def fails(url: str, *plugins: Any) -> tuple[str, int, str]:
        runner = runner_of(LlmAgent(name="main", model=model(url)), plugins=list(plugins))
        with pytest.raises(ClientError) as raised:
            async for _ in runner.run_async(
                user_id="u", session_id="s", new_message=message_of("x"), run_config=config
            ):
                pass
        return type(raised.value).__name__, raised.value.code, str(raised.value)

    @workflow(loop="native")
    async def failing(url: str) -> list[Any]:
        return list(await fails(url, Plugin()))

    async def main(url: str) -> None:
        bare = await fails(url)
        async with App("memory://") as app:
            assert await (await app.start(failing(url))).result() == list(bare)

    with saying(lambda asked: Reply(status=400, text="no such model"), tmp_path) as stand_in:
        asyncio.run(main(stand_in.url))
        assert len(stand_in.asked()) == 2
