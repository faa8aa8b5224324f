"""Steps with a rate wait for their turn, whichever run they belong to."""

from __future__ import annotations

import asyncio
import time

import pytest

import outlast
from outlast import App, Notice, Retry, WrongUse

begun: list[tuple[str, float]] = []


def note(name: str) -> None:
    begun.append((name, time.monotonic()))


@outlast.step(effect="pure", rate=outlast.rate("gpt", 2, per=0.4))
async def ask(name: str) -> str:
    note(name)
    return name


tokens = outlast.rate("tokens", 10, per=0.4, weight=len)


@outlast.step(effect="idempotent", rate=(tokens, outlast.rate("requests", 100, per=0.4)))
async def prompt(text: str) -> int:
    note(text)
    return len(text)


@outlast.step(effect="pure", rate=outlast.rate("retried", 1, per=0.3), retry=Retry(attempts=3, initial=0.0, jitter=0.0))
async def flaky(name: str) -> str:
    note(name)
    if len(begun) < 3:
        raise ConnectionError(name)
    return name


@outlast.step(effect="once", rate=outlast.rate("hourly", 1, per=1.5))
async def pay(name: str) -> str:
    note(name)
    return name


@outlast.workflow
async def asks(names: list[str]) -> list[str]:
    return list(await asyncio.gather(*map(ask, names)))


@outlast.workflow
async def prompts(texts: list[str]) -> list[int]:
    return [await prompt(text) for text in texts]


@outlast.workflow
async def tries(name: str) -> str:
    return await flaky(name)


@outlast.workflow
async def pays(name: str) -> str:
    return await pay(name)


@pytest.fixture(autouse=True)
def nothing_begun() -> None:
    begun.clear()


def windows_hold(limit: int, per: float) -> bool:
    times = sorted(moment for _, moment in begun)
    return all(later - earlier >= per - 0.005 for earlier, later in zip(times, times[limit:], strict=False))


def test_no_more_steps_begin_than_the_rate_says_in_all_runs_together(url: str) -> None:
    async def main() -> None:
        async with App(url) as app:
            runs = [await app.start(asks([f"{run}{n}" for n in range(3)])) for run in "ab"]
            assert [await run.result() for run in runs] == [["a0", "a1", "a2"], ["b0", "b1", "b2"]]

    asyncio.run(main())
    assert len(begun) == 6
    assert windows_hold(2, 0.4)


def test_a_weight_is_made_of_the_arguments(url: str) -> None:
    async def main() -> None:
        async with App(url) as app:
            run = await app.start(prompts(["x" * 6, "y" * 5, "z" * 4]))
            assert await run.result() == [6, 5, 4]

    asyncio.run(main())
    first, second, third = (moment for _, moment in begun)
    assert second - first >= 0.395
    assert third - second < 0.3


def test_each_attempt_takes_its_turn(url: str) -> None:
    async def main() -> None:
        async with App(url) as app:
            assert await (await app.start(tries("t"))).result() == "t"

    asyncio.run(main())
    assert len(begun) == 3
    assert windows_hold(1, 0.3)


def test_a_run_rests_while_a_step_of_it_waits_for_its_turn(url: str) -> None:
    async def main() -> None:
        parked: list[str] = []

        def hear(notice: Notice) -> None:
            if notice.name == "run.parked":
                parked.append(notice.data["run"])

        async with App(url, park_after=0.1, on_event=hear) as app:
            first = await app.start(pays("first"))
            assert await first.result() == "first"
            second = await app.start(pays("second"), id="second")
            assert await second.result() == "second"
        assert "second" in parked

    asyncio.run(main())
    assert windows_hold(1, 1.5)


def test_a_weight_beyond_the_limit_is_an_error_of_the_step(url: str) -> None:
    async def main() -> None:
        async with App(url) as app:
            run = await app.start(prompts(["x" * 11]))
            with pytest.raises(WrongUse, match=r"main/prompt#1 of run .* weighs 11 in rate 'tokens'"):
                await run.result()

    asyncio.run(main())
    assert begun == []


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(WrongUse, match="limit"):
        outlast.rate("r", 0)
    with pytest.raises(WrongUse, match="per=0"):
        outlast.rate("r", 5, per=0)
    with pytest.raises(WrongUse, match="weight=9"):
        outlast.rate("r", 5, weight=9)
    with pytest.raises(WrongUse, match=r"rate=\('gpt',\)"):
        ask.options(rate="gpt")  # type: ignore[arg-type]
    with pytest.raises(WrongUse, match="twice"):
        ask.options(rate=(tokens, tokens))
