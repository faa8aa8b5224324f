"""A message and a timer that race: whichever was recorded first has won, for good, and the loser takes nothing."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

import outlast
from tests.support.rig import Rig

ROUNDS = 6
CHUNKS = 20
SEEDS_IN_A_CHUNK = 50


async def by_its_own_timeout(seconds: float) -> Any:
    return await outlast.receive("m", timeout=seconds)


async def by_wait_for(seconds: float) -> Any:
    return await asyncio.wait_for(outlast.receive("m"), seconds)


async def by_timeout(seconds: float) -> Any:
    async with asyncio.timeout(seconds):
        return await outlast.receive("m")


async def by_a_race(seconds: float, *, message_first: bool) -> Any:
    """Race two tasks, created and passed in either order, and cancel the loser."""

    async def message() -> Any:
        return await outlast.receive("m")

    async def timer() -> None:
        await asyncio.sleep(seconds)

    tasks = {}
    for name, make in sorted({"message": message, "timer": timer}.items(), reverse=not message_first):
        tasks[name] = asyncio.create_task(make())
    done, lost = await asyncio.wait(tasks.values(), return_when=asyncio.FIRST_COMPLETED)
    for task in lost:
        task.cancel()
    if tasks["message"] in done:
        return tasks["message"].result()
    raise TimeoutError


FORMS = (
    by_its_own_timeout,
    by_wait_for,
    by_timeout,
    lambda seconds: by_a_race(seconds, message_first=True),
    lambda seconds: by_a_race(seconds, message_first=False),
)


def play(seed: int) -> None:
    """Race as often as there are rounds, let chance decide each, and replay every prefix of what was recorded."""
    chance = random.Random(seed)
    plan = [(chance.choice(FORMS), chance.choice([0.5, 1.0, 30.0])) for _ in range(ROUNDS)]

    async def body() -> list[Any]:
        winners: list[Any] = []
        for form, seconds in plan:
            try:
                winners.append(await form(seconds))
            except TimeoutError:
                winners.append("timer")
        return winners

    rig, sent, won = Rig(body).begin(), 0, list[Any]()
    while rig.outcome is None:
        (wait,) = rig.waiting
        if chance.random() < 0.5:
            rig.message(wait, sent)
            won.append(sent)
            sent += 1
        else:
            rig.fire()
            won.append("timer")
    assert rig.result == won
    assert rig.must_replay().result == won


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_winner_stays_the_winner_in_every_replay(chunk: int) -> None:
    for seed in range(chunk * SEEDS_IN_A_CHUNK, (chunk + 1) * SEEDS_IN_A_CHUNK):
        play(seed)
