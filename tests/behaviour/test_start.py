"""Starting a run: known by its id and repeatable; another call under an id that is taken is a conflict."""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
from collections.abc import Callable
from typing import Any

import pytest

import outlast
from outlast import Call, RunConflict, WrongUse, step, workflow
from outlast.codec import JsonCodec, WrappedCodec
from tests.behaviour.stage import Door, OpenApp


@step
async def double(n: int) -> int:
    return 2 * n


@workflow
async def doubled(n: int = 1, *, label: str = "") -> int:
    return await double(n)


@workflow
async def tripled(n: int = 1) -> int:
    return 3 * n


@workflow
async def echo(value: Any) -> Any:
    return value


@workflow
async def many(*numbers: int, **more: Any) -> list[Any]:
    return [list(numbers), sorted(more)]


@dataclasses.dataclass
class Point:
    x: int
    y: int


async def test_a_start_with_an_id_that_exists_gives_the_same_run(open_app: OpenApp) -> None:
    async with open_app() as app:
        first = await app.start(doubled(21), id="one")
        again = await app.start(doubled(21), id="one")
        assert (again.id, await again.result()) == ("one", await first.result())
        after_the_end = await app.start(doubled(21), id="one")
        assert await after_the_end.result() == 42
        assert len(await app.runs()) == 1


async def test_a_repeated_start_gives_the_failure_of_the_run_that_exists(open_app: OpenApp) -> None:
    @workflow
    async def failing() -> None:
        raise LookupError("no")

    async with open_app() as app:
        for _ in range(2):
            run = await app.start(failing(), id="one")
            with pytest.raises(LookupError, match="no"):
                await run.result()


async def test_five_starts_at_once_execute_once(open_app: OpenApp) -> None:
    door, bodies = Door(), []

    @step
    async def work() -> int:
        bodies.append(1)
        await door.passed()
        return 7

    @workflow
    async def slow() -> int:
        return await work()

    async with open_app() as app:
        runs = await asyncio.gather(*(app.start(slow(), id="same") for _ in range(5)))
        await door.reached()
        door.open()
        assert await asyncio.gather(*(run.result() for run in runs)) == [7] * 5
        assert len(bodies) == 1


async def test_a_run_without_an_id_gets_a_new_one_each_time(open_app: OpenApp) -> None:
    async with open_app() as app:
        first, second = await app.start(doubled(1)), await app.start(doubled(1))
        assert first.id
        assert first.id != second.id
        assert await second.result() == 2


async def test_the_same_id_with_other_arguments_is_a_conflict_that_changes_nothing(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(doubled(1), id="one")
        before = (await run.result(), await run.info())
        with pytest.raises(RunConflict, match="'one' exists already, with other arguments"):
            await app.start(doubled(2), id="one")
        assert (await run.result(), await run.info()) == before
        assert len(await app.runs()) == 1


async def test_a_conflict_shows_both_calls_and_cuts_long_ones(open_app: OpenApp) -> None:
    async with open_app() as app:
        await app.start(doubled(1, label="a"), id="one")
        with pytest.raises(RunConflict, match=r"it is doubled\(1, label='a'\), and not doubled\(2\); nothing"):
            await app.start(doubled(2), id="one")
        await app.start(echo("x" * 5_000), id="two")
        with pytest.raises(RunConflict, match=r"'xx.*xx'\), and not echo\(\['yy") as refused:
            await app.start(echo(["y" * 50] * 5_000), id="two")
        assert len(str(refused.value)) < 500


async def test_an_argument_that_was_left_out_is_not_its_default(open_app: OpenApp) -> None:
    async with open_app() as app:
        await app.start(doubled(), id="one")
        with pytest.raises(RunConflict, match=r"it is doubled\(\), and not doubled\(1\)"):
            await app.start(doubled(1), id="one")


SPELLINGS: dict[str, list[Callable[[], Call[Any]]]] = {
    "by name": [lambda: doubled(21), lambda: doubled(n=21)],
    "names in another order": [lambda: doubled(n=21, label="x"), lambda: doubled(label="x", n=21)],
    "some by name": [lambda: doubled(label="x", n=21), lambda: doubled(21, label="x")],
    "of a class": [lambda: echo(Point(1, 2)), lambda: echo(value=Point(1, 2))],
    "any number": [lambda: many(1, 2, 3, a=4, b={"x": 5}), lambda: many(1, 2, 3, b={"x": 5}, a=4)],
    "a step": [lambda: double(21), lambda: double(n=21)],
}


@pytest.mark.parametrize("name", SPELLINGS)
async def test_the_same_call_spelt_in_another_way_gives_the_same_run(open_app: OpenApp, name: str) -> None:
    one, other = SPELLINGS[name]
    async with open_app() as app:
        run = await app.start(one(), id="one")
        same = await app.start(other(), id="one")
        result = await run.result()
        assert await same.result() == result
        after_the_end = await app.start(other(), id="one")
        assert await after_the_end.result() == result
        assert len(await app.runs()) == 1


async def test_under_a_codec_that_encrypts_equal_calls_are_equal_and_others_are_not_shown(open_app: OpenApp) -> None:
    def wrap(data: bytes) -> bytes:
        key = secrets.token_bytes(1)
        return key + bytes(b ^ key[0] for b in data)

    def unwrap(data: bytes) -> bytes:
        return bytes(b ^ data[0] for b in data[1:])

    async with open_app(codec=WrappedCodec(JsonCodec(), wrap=wrap, unwrap=unwrap)) as app:
        for _ in range(20):
            await app.start(echo("secret"), id="one")
            await app.start(echo(value="secret"), id="one")
        with pytest.raises(RunConflict, match="with other arguments") as refused:
            await app.start(echo("sesame"), id="one")
        assert "secret" not in str(refused.value)
        assert "sesame" not in str(refused.value)


async def test_arguments_that_cannot_be_read_here_are_a_conflict(open_app: OpenApp) -> None:
    @dataclasses.dataclass
    class Gone:
        n: int

    Gone.__qualname__ = "Gone"
    globals()["Gone"] = Gone
    async with open_app(worker=False) as app:
        await app.start(echo(Gone(1)), id="one")
        del globals()["Gone"]
        with pytest.raises(RunConflict, match="other arguments"):
            await app.start(echo(2), id="one")


async def test_the_same_id_for_another_workflow_is_a_conflict(open_app: OpenApp) -> None:
    async with open_app() as app:
        await app.start(doubled(1), id="one")
        with pytest.raises(RunConflict, match="workflow 'doubled'"):
            await app.start(tripled(1), id="one")


async def test_a_step_and_a_workflow_of_one_name_conflict(open_app: OpenApp) -> None:
    @step(name="twin")
    async def as_step(n: int) -> str:
        return "step"

    @workflow(name="twin")
    async def as_workflow(n: int) -> str:
        return "workflow"

    async with open_app() as app:
        run = await app.start(as_step(1), id="one")
        with pytest.raises(RunConflict):
            await app.start(as_workflow(1), id="one")
        other = await app.start(as_workflow(1), id="two")
        assert (await run.result(), await other.result()) == ("step", "workflow")


async def test_a_conflict_with_a_run_in_progress_leaves_it_in_progress(open_app: OpenApp) -> None:
    door = Door()

    @step
    async def work() -> int:
        await door.passed()
        return 1

    @workflow
    async def busy(n: int) -> int:
        return await work()

    async with open_app() as app:
        run = await app.start(busy(1), id="one")
        await door.reached()
        with pytest.raises(RunConflict, match="status running"):
            await app.start(busy(2), id="one")
        door.open()
        assert await run.result() == 1


@pytest.mark.parametrize("id", ["x" * 255, "ü/ñ#1", "a b", "order:55?", "日本", "'; DROP TABLE runs; --", "%", "_"])
async def test_an_odd_id_names_its_run_and_no_other(open_app: OpenApp, id: str) -> None:
    async with open_app() as app:
        await app.start(tripled(1), id="other")
        run = await app.start(doubled(4), id=id)
        assert (run.id, await run.result()) == (id, 8)
        assert (await app.get(id)).id == id
        assert [info.id for info in await app.runs(id_prefix=id)] == [id]


async def test_arguments_are_taken_at_the_start(open_app: OpenApp) -> None:
    things = ["a"]
    async with open_app() as app:
        run = await app.start(echo(things))
        things.append("b")
        assert await run.result() == ["a"]


async def test_a_single_step_can_be_a_run(open_app: OpenApp) -> None:
    keys = []

    @step(effect="once")
    async def pay(cents: int) -> int:
        keys.append(outlast.idempotency_key())
        return cents

    async with open_app() as app:
        run = await app.start(pay(5), id="payment")
        assert await run.result() == 5
        assert await (await app.start(pay(5), id="payment")).result() == 5
        assert len(keys) == 1
        assert (await run.info()).is_step


async def test_a_sync_step_can_be_a_run(open_app: OpenApp) -> None:
    @step
    def add(a: int, b: int) -> int:
        return a + b

    async with open_app() as app:
        assert await (await app.start(add.call(1, 2))).result() == 3


async def test_a_closed_app_refuses(open_app: OpenApp) -> None:
    app = open_app()
    async with app:
        run = await app.start(doubled(1), id="one")
    with pytest.raises(WrongUse, match="not open"):
        await app.start(doubled(1), id="one")
    with pytest.raises(WrongUse, match="not open"):
        await app.get("one")
    with pytest.raises(WrongUse, match="not open"):
        await run.status()
    with pytest.raises(WrongUse, match="not open"):
        await app.runs()


async def test_an_app_that_was_closed_can_be_opened_again(open_app: OpenApp) -> None:
    app = open_app()
    for n in (1, 2):
        async with app:
            assert await (await app.start(doubled(n))).result() == 2 * n


async def test_an_open_app_cannot_be_entered_again(open_app: OpenApp) -> None:
    async with open_app() as app:
        with pytest.raises(WrongUse, match="open already"):
            await app.__aenter__()
        assert await (await app.start(doubled(1))).result() == 2
