"""With a codec that a user wrote, what cannot be stored fails early, once, and hides no other error."""

from __future__ import annotations

from typing import Any

import pytest

from outlast import DidNotHappen, EncodingError, Happened, Retry, step, workflow
from tests.behaviour.stage import OpenApp, failure, stuck
from tests.support.bare_codec import BareCodec


@pytest.mark.parametrize("effect", ["pure", "idempotent", "once"])
@pytest.mark.parametrize("blocking", [False, True], ids=["async", "thread"])
async def test_a_result_fails_its_step_once(open_app: OpenApp, effect: Any, blocking: bool) -> None:
    effects: list[int] = []

    @step(effect=effect, retry=Retry(attempts=5, initial=0))
    async def give() -> Any:
        effects.append(1)
        return {1, 2}

    @step(effect=effect, retry=Retry(attempts=5, initial=0))
    def give_blocking() -> Any:
        effects.append(1)
        return {1, 2}

    @workflow
    async def flow() -> str:
        try:
            await (give_blocking.call() if blocking else give())
        except EncodingError as refused:
            return str(refused)
        return "stored"

    async with open_app(codec=BareCodec()) as app:
        says = await (await app.start(flow(), id="one")).result()
    assert "of run one returned what cannot be stored" in says
    assert "type set is not JSON serializable" in says
    assert len(effects) == 1


async def test_arguments_are_refused_where_they_are_given(open_app: OpenApp) -> None:
    @step
    async def take(value: Any) -> None:
        raise AssertionError("called with what cannot be stored")

    @workflow
    async def child(value: Any) -> None:
        raise AssertionError("started with what cannot be stored")

    @workflow
    async def flow(value: Any) -> list[str]:
        refused = []
        for call in (take, child):
            try:
                await call({1})
            except EncodingError as error:
                refused.append(str(error))
        return refused

    async with open_app(codec=BareCodec()) as app:
        with pytest.raises(EncodingError, match="not JSON serializable"):
            await app.start(flow({1}), id="one")
        assert await app.runs() == []
        assert len(await (await app.start(flow(1))).result()) == 2


async def test_a_result_of_the_run_fails_the_run(open_app: OpenApp) -> None:
    @workflow
    async def flow() -> Any:
        return {1}

    async with open_app(codec=BareCodec()) as app:
        run = await app.start(flow())
        assert isinstance(await failure(run), EncodingError)
        assert await run.status() == "failed"


async def test_a_plain_error_is_stored_as_what_it_is(open_app: OpenApp) -> None:
    """Also one with something in it that the codec cannot take."""

    @step
    async def fail(what: str) -> None:
        raise ValueError("err") if what == "plain" else ValueError("err", {1})

    @workflow
    async def flow(what: str) -> None:
        await fail(what)

    async with open_app(codec=BareCodec()) as app:
        for what in ("plain", "with a set"):
            run = await app.start(flow(what))
            back = await failure(run)
            assert "err" in str(back)
            assert "not JSON serializable" not in str(back)
            assert await run.status() == "failed"
            assert "err" in (await run.info()).error


async def test_an_answer_of_confirm_is_not_taken_for_a_no(open_app: OpenApp) -> None:
    sent: list[int] = []

    @step(effect="once", confirm=lambda _: Happened({1}) if sent else DidNotHappen())
    async def send() -> Any:
        sent.append(1)
        raise ConnectionError("read timeout")

    @workflow
    async def flow() -> None:
        await send()

    async with open_app(codec=BareCodec()) as app:
        info = await stuck(await app.start(flow()))
    assert info.reason == "in_doubt"
    assert "not JSON serializable" in info.detail
    assert sent == [1]


async def test_what_cannot_be_read_again_sticks_the_run_and_names_it(open_app: OpenApp) -> None:
    class Forgetful(BareCodec):
        forgot = False

        def decode(self, data: bytes, type: object = Any) -> Any:
            if self.forgot and b"secret" in data:
                raise KeyError("the key was rotated")
            return super().decode(data, type)

    codec = Forgetful()

    @workflow
    async def flow(text: str) -> str:
        return text

    async with open_app(codec=codec, worker=False) as client:
        await client.start(flow("secret"), id="one")
    codec.forgot = True
    async with open_app(codec=codec) as app:
        info = await stuck(await app.get("one"))
        assert info.reason == "undecodable"
        assert "the key was rotated" in info.detail
        codec.forgot = False
        assert await (await app.resume("one")).result() == "secret"
