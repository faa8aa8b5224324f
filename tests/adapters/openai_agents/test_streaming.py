"""A streamed answer passes live, is read by others once, and is told from its record afterwards."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Runner

from outlast import App, Run, StreamReset
from outlast.openai_agents import install
from tests.adapters.openai_agents import desk
from tests.adapters.openai_agents.scenes import again, asked, durably, processes, streamed
from tests.adapters.stand_in import Asked, Reply, serving
from tests.behaviour.stage import eventually


def says(asked: Asked) -> Reply:
    """Say some words."""
    return Reply("roses are red and violets are blue")


WORDS = ["roses", " are", " red", " and", " violets", " are", " blue"]


def test_pieces_pass_live_and_a_replay_tells_the_same_text(tmp_path: Path) -> None:
    seen: list[list[str]] = []
    fails = [True]

    async def main() -> None:
        async with asked(says, tmp_path) as (model, stand_in):

            async def body() -> str:
                result, pieces = await streamed(Agent("poet", model=model), "roses")
                seen.append(pieces)
                if fails:
                    raise RuntimeError("once more")
                return str(result.final_output)

            with pytest.raises(RuntimeError, match="once more"):
                await durably(body, tmp_path)
            fails.clear()
            assert await again(tmp_path) == "".join(WORDS)
            assert len(stand_in.asked()) == 1

    asyncio.run(main())
    assert seen == [WORDS, ["".join(WORDS)]]


@pytest.mark.parametrize("name", ["tokens", "words", None])
def test_the_text_goes_to_the_stream_that_was_asked_for(name: str | None, tmp_path: Path) -> None:
    install(tokens=name)

    async def main() -> None:
        async with asked(says, tmp_path) as (model, _):

            async def body() -> None:
                await streamed(Agent("poet", model=model), "roses")

            await durably(body, tmp_path)
            async with App(f"sqlite:///{tmp_path}/runs.db", worker=False) as app:
                run = await app.get("scene")
                kept = {stream: [item.value async for item in run.stream(stream)] for stream in ("tokens", "words")}
            assert kept == {stream: WORDS if stream == name else [] for stream in ("tokens", "words")}

    asyncio.run(main())


def test_who_leaves_a_stream_early_ends_the_agent(tmp_path: Path) -> None:
    async def main() -> None:
        async with asked(says, tmp_path) as (model, _):

            async def body() -> str:
                result = Runner.run_streamed(Agent("poet", model=model), "roses")
                async for event in result.stream_events():
                    if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                        result.cancel()
                return "left"

            assert await durably(body, tmp_path) == "left"

    asyncio.run(main())


def test_a_reader_ends_with_each_token_once_though_the_process_dies_in_the_middle(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    with serving(desk.says, plain / "asked") as stand_in:
        scene = desk.set_up(plain, stand_in.url)
        asyncio.run(_finished(scene, None))
        in_answers = [line["number"] for line in scene.done("point") if line["name"] == "in a model's answer"]

    with serving(desk.says, tmp_path / "asked") as stand_in:
        scene = desk.set_up(tmp_path, stand_in.url)
        child = processes.Process(target=desk.work_until_killed, args=(tmp_path, stand_in.url, True, in_answers[-1]))
        child.start()
        try:
            read = asyncio.run(_finished(scene, child))
        finally:
            child.kill()
    assert child.exitcode == -signal.SIGKILL
    assert "".join(read) == desk.ANSWER


async def _finished(scene: desk.Scene, child: Any) -> list[str]:
    """Read the stream from its beginning to its end, while a child works and dies, and another process goes on."""
    assert scene.client is not None
    async with scene.client, App(scene.store, worker=False) as reader:
        if child is not None:
            await eventually(reader.runs)
            reading = asyncio.create_task(_read(await reader.get(desk.RUN)))
            while child.is_alive():
                await _approve(reader)
        async with App(scene.store) as app:
            run = await app.start(desk.desk("help", True), id=desk.RUN)
            if child is None:
                reading = asyncio.create_task(_read(run))
            while not reading.done():
                await _approve(app)
            return await reading


async def _approve(app: App) -> None:
    for waiting in await app.approvals():
        await app.approve(waiting.id, by="ada")
    await asyncio.sleep(0.01)


async def _read(run: Run[Any]) -> list[str]:
    kept: list[tuple[int, str]] = []
    async for item in run.stream("tokens"):
        if isinstance(item, StreamReset):
            kept = [(position, text) for position, text in kept if position <= item.position]
        else:
            kept.append((item.position, item.value))
    return [text for _, text in kept]
