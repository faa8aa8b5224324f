"""A start that could not be kept is refused before anything exists, and says what to write instead."""

from __future__ import annotations

import threading
import uuid
from typing import Any

import pytest

import outlast
from outlast import EncodingError, RunNotFound, WrongUse, workflow
from tests.behaviour.flows import double, doubled
from tests.behaviour.stage import OpenApp


@workflow
async def echo(value: Any) -> Any:
    return value


@pytest.mark.parametrize("id", ["", "x" * 256, " a", "a ", "a\nb", "a\0b", "\ud800"])
async def test_an_id_that_cannot_name_a_run_is_refused(open_app: OpenApp, id: str) -> None:
    async with open_app() as app:
        with pytest.raises(WrongUse, match="run id"):
            await app.start(doubled(1), id=id)
        with pytest.raises(WrongUse, match="run id"):
            await app.get(id)
        assert await app.runs() == []


@pytest.mark.parametrize("id", [42, b"42", uuid.UUID(int=42), ["42"], True])
async def test_an_id_is_text_so_that_it_is_spelled_one_way(open_app: OpenApp, id: Any) -> None:
    async with open_app() as app:
        await app.start(doubled(1), id="42")
        with pytest.raises(WrongUse, match="a run id is a str, not"):
            await app.start(doubled(1), id=id)
        with pytest.raises(WrongUse, match="a run id is a str, not"):
            await app.get(id)


async def test_an_id_that_no_command_could_name_is_refused(open_app: OpenApp) -> None:
    async with open_app() as app:
        with pytest.raises(WrongUse, match="does not begin with '-'"):
            await app.start(doubled(1), id="-x")


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (threading.Lock(), ": type"),
        ({"user": {"lock": threading.Lock()}}, ".user.lock: type"),
        ([1, (i for i in "ab")], "[1]: type"),
        (lambda: None, ": type"),
        (object(), ": type"),
    ],
    ids=["lock", "nested lock", "generator", "lambda", "object"],
)
async def test_arguments_that_cannot_be_stored_are_refused_with_their_path(
    open_app: OpenApp, value: Any, path: str
) -> None:
    async with open_app() as app:
        with pytest.raises(EncodingError) as refused:
            await app.start(echo(value), id="one")
        assert "run one of echo was not started" in str(refused.value)
        assert f"cannot be stored: argument 'value'{path}" in str(refused.value)
        with pytest.raises(RunNotFound):
            await app.get("one")
        assert await (await app.start(echo(1), id="one")).result() == 1


async def test_an_argument_that_cannot_be_stored_is_named_however_it_is_given(open_app: OpenApp) -> None:
    @workflow
    async def report(title: str, *rest: Any, **more: Any) -> None: ...

    async with open_app() as app:
        for call, named in (
            (report(title=object()), "argument 'title': type object"),  # type: ignore[arg-type]
            (report("x", 1, [object()]), "argument '*rest'[0]: type object"),
            (report("x", lock={"a": object()}), "argument 'lock'.a: type object"),
        ):
            with pytest.raises(EncodingError) as refused:
                await app.start(call)
            assert named in str(refused.value)


async def test_an_argument_larger_than_the_limit_is_refused(open_app: OpenApp) -> None:
    async with open_app() as app:
        with pytest.raises(outlast.PayloadTooLarge):
            await app.start(echo("x" * (17 * 2**20)), id="one")
        with pytest.raises(RunNotFound):
            await app.get("one")


async def test_an_instance_of_a_local_class_is_refused_at_the_start(open_app: OpenApp) -> None:
    class Local:
        pass

    async with open_app() as app:
        with pytest.raises(EncodingError, match="not started"):
            await app.start(echo(Local()), id="one")
        with pytest.raises(RunNotFound):
            await app.get("one")


async def test_arguments_that_do_not_fit_the_signature_are_refused_like_a_call(open_app: OpenApp) -> None:
    async with open_app() as app:
        with pytest.raises(TypeError, match=r"workflow doubled\(n: int\).*too many positional arguments"):
            await app.start(doubled(1, 2), id="one")  # type: ignore[call-arg]
        with pytest.raises(TypeError, match=r"workflow doubled\(n: int\).*unexpected keyword argument 'm'"):
            await app.start(doubled(1, m=2), id="one")  # type: ignore[call-arg]
        assert await app.runs() == []


@pytest.mark.parametrize(
    ("thing", "advice"),
    [
        (doubled, r"call it: app\.start\(doubled\(\.\.\.\)\)"),
        (double, r"call it: app\.start\(double\(\.\.\.\)\)"),
        (outlast.step(int.bit_length), r"call it: app\.start\(bit_length\.call\(\.\.\.\)\)"),
        (doubled.fn, r"put @outlast\.workflow above doubled and give app\.start\(doubled\(\.\.\.\)\), without \.fn"),
        (print, "put @outlast.workflow above print"),
        (5, r"not 5; where that is what a sync step returned, it has run already: give app\.start\(a_step\.call"),
        (None, "not None; where that is what a sync step returned"),
        ("doubled", "not 'doubled'; where that is what a sync step returned"),
    ],
)
async def test_what_is_no_call_is_refused_with_what_to_write(open_app: OpenApp, thing: Any, advice: str) -> None:
    async with open_app() as app:
        with pytest.raises(WrongUse, match=rf"app\.start takes the call of a workflow or step, .*{advice}"):
            await app.start(thing)


async def test_a_coroutine_that_is_no_call_is_refused(open_app: OpenApp) -> None:
    async with open_app() as app:
        coroutine = doubled.fn(1)
        with pytest.raises(
            WrongUse, match=r"app\.start takes the call of a workflow .*above doubled and .*without \.fn"
        ):
            await app.start(coroutine)  # type: ignore[arg-type]


async def test_a_call_can_be_given_to_start_again_after_a_refusal(open_app: OpenApp) -> None:
    call = doubled(1)
    async with open_app() as app:
        with pytest.raises(WrongUse):
            await app.start(call, id="")
        assert await (await app.start(call, id="one")).result() == 2


async def test_a_refused_start_leaves_no_warning_of_a_call_that_was_never_awaited(open_app: OpenApp) -> None:
    app = open_app()
    with pytest.raises(WrongUse, match="not open"):  # warnings are errors here
        await app.start(doubled(1))
    async with app:
        with pytest.raises(WrongUse):
            await app.start(doubled(1), id="")
