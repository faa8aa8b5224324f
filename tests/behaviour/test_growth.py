"""What a long run takes in its store grows with its steps, and not with their square."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from outlast import App, step, workflow


@step(effect="pure")
async def answer(state: dict[str, str]) -> str:
    return f"answer {len(state)} " + "x" * 200


@workflow
async def chat(turns: int, rest_every: int) -> int:
    """The state is passed to every step and grows with every turn."""
    state: dict[str, str] = {}
    for turn in range(turns):
        state[str(turn)] = await answer(state)
        if rest_every and turn % rest_every == 0:
            await asyncio.sleep(0.03)
    return len(state)


def bytes_of(file: Path) -> int:
    """Return the bytes of a store's files."""
    return sum(part.stat().st_size for part in file.parent.glob(f"{file.name}*") if part.is_file())


async def size_of(folder: Path, turns: int, rest_every: int) -> int:
    """Return the bytes that the store has for a run of so many turns."""
    file = folder / f"{turns}.db"
    async with App(f"sqlite:///{file}", park_after=0.005) as app:
        assert await (await app.start(chat(turns, rest_every))).result() == turns
    return bytes_of(file)


@pytest.mark.parametrize("rest_every", [0, 20])
async def test_a_growing_state_is_not_stored_anew_with_each_step(tmp_path: Path, rest_every: int) -> None:
    few, many = await size_of(tmp_path, 75, rest_every), await size_of(tmp_path, 300, rest_every)
    assert many < 5 * few
    assert many / 300 < 2_000
