"""Answers that come in piece by piece: live to who iterates, once to the readers of the run's stream."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import openai
import pytest

import outlast
from outlast import App, workflow
from outlast.crewai import durable
from tests.adapters.crewai.running import begun_again, one_task, saying
from tests.adapters.stand_in import Asked, Reply

PASSES: list[list[str]] = []
heard = threading.Event()


@workflow(loop="native")
async def streaming(url: str, form: str) -> str:
    """Iterate over what a crew says."""
    crew = one_task(url, "SAY one")
    crew.stream = True
    copy = durable(crew, tokens="tokens")
    PASSES.append([])
    if form == "kickoff":

        def iterate() -> Any:
            output = copy.kickoff()
            for chunk in output:
                PASSES[-1].append(chunk.content)
                heard.set()
            return output

        output = await asyncio.to_thread(iterate)
    else:
        output = await getattr(copy, form)()
        async for chunk in output:
            PASSES[-1].append(chunk.content)
            heard.set()
    await outlast.approve("Go on?")
    return str(output.result.raw)


@pytest.mark.parametrize("form", ["akickoff", "kickoff_async", "kickoff"])
def test_pieces_come_live_and_the_whole_answer_alone_is_told_again(form: str, tmp_path: Path) -> None:
    PASSES.clear()
    heard.clear()

    def wait() -> None:
        assert heard.wait(20)

    def script(asked: Asked) -> Reply:
        # The rest is sent once who iterates has had the first piece.
        return Reply(text="Final Answer: one two three", before=lambda n: wait() if n == 2 else None)

    async def main(url: str) -> None:
        store = f"sqlite:///{tmp_path / 'a.db'}"
        assert await begun_again(store, streaming(url, form)) == "one two three"
        async with App(store, worker=False) as app:
            run = await app.get("again")
            items = [item.value async for item in run.stream("tokens")]
        assert "".join(items) == "Final Answer: one two three"
        assert "".join(PASSES[0]) == "Final Answer: one two three"
        assert PASSES[1] == []

    with saying(tmp_path, script) as stand_in:
        asyncio.run(main(stand_in.url))
        assert len(stand_in.asked()) == 1


@workflow(loop="native")
async def failing(url: str, form: str) -> list[Any]:
    """Have a crew's model fail."""
    came = await _failed(durable(one_task(url, "FAIL")), form)
    await outlast.approve("Go on?")
    return came


async def _failed(crew: Any, form: str) -> list[Any]:
    with pytest.raises(openai.BadRequestError) as raised:
        await getattr(crew, form)()
    error = raised.value
    return [str(error), error.status_code, error.response.status_code, error.response.json(), str(error.request.url)]


@pytest.mark.parametrize("form", ["akickoff", "kickoff_async"])
def test_what_a_model_raises_is_raised_as_without_outlast_and_asked_no_more_often(form: str, tmp_path: Path) -> None:
    with saying(tmp_path) as stand_in:
        bare = asyncio.run(_failed(one_task(stand_in.url, "FAIL"), form))
        asked = len(stand_in.asked())
        again = asyncio.run(begun_again(f"sqlite:///{tmp_path / 'a.db'}", failing(stand_in.url, form)))
        assert again == bare
        assert len(stand_in.asked()) == 2 * asked


@workflow(loop="native")
async def waiting(url: str, form: str) -> str:
    """Ask a model that takes its time."""
    return str((await getattr(durable(one_task(url, "SAY hello")), form)()).raw)


@pytest.mark.parametrize("form", ["akickoff", "kickoff_async"])
def test_a_run_is_cancelled_while_its_model_takes_its_time_and_tries_no_more(form: str, tmp_path: Path) -> None:
    asked_for, go_on = threading.Event(), threading.Event()

    def script(asked: Asked) -> Reply:
        asked_for.set()
        assert go_on.wait(30)
        return Reply(text="Final Answer: late")

    async def main(url: str) -> None:
        async with App("memory://") as app:
            run = await app.start(waiting(url, form))
            await asyncio.to_thread(asked_for.wait, 20)
            await run.cancel()
            with pytest.raises(outlast.RunCancelled):
                await run.result(timeout=20)
            go_on.set()

    with saying(tmp_path, script) as stand_in:
        asyncio.run(main(stand_in.url))
        assert len(stand_in.asked()) == 1


@pytest.mark.parametrize("form", ["akickoff", "kickoff_async"])
def test_a_worker_that_leaves_while_a_model_takes_its_time_hands_the_run_on(form: str, tmp_path: Path) -> None:
    asked_for, leaving = threading.Event(), threading.Event()

    def wait() -> None:
        assert leaving.wait(20)

    def script(asked: Asked) -> Reply:
        asked_for.set()
        return Reply(text="Final Answer: slow", before=lambda n: wait())

    async def main(url: str) -> None:
        store = f"sqlite:///{tmp_path / 'a.db'}"
        async with App(store) as app:
            await app.start(waiting(url, form), id="handed-on")
            await asyncio.to_thread(asked_for.wait, 20)
            asyncio.get_running_loop().call_later(0.1, leaving.set)  # once the worker is about to leave
        async with App(store) as app:
            assert await (await app.get("handed-on")).result(timeout=30) == "slow"

    with saying(tmp_path, script) as stand_in:
        asyncio.run(main(stand_in.url))
        assert len(stand_in.asked()) == 1
