"""Resuming a run whose `once` step failed: it fires again only where its record says that nothing happened."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

import outlast
from outlast import Happened, Retry, step, workflow
from outlast.codec import JsonCodec, WrappedCodec
from tests.behaviour.stage import OpenApp, failure, stuck

SQUEEZED = WrappedCodec(JsonCodec(), wrap=zlib.compress, unwrap=zlib.decompress)

fired: list[int] = []


class Declined(Exception):
    pass


class Unreached(Exception):
    pass


@pytest.fixture(autouse=True)
def nothing_fired() -> None:
    fired.clear()


def charging(error: BaseException, annotated: bool = False, **settings: Any) -> Any:
    """Return a workflow whose `once` step fails with this error when it is fired for the first time."""

    @step(effect="once", **settings)
    async def charge() -> int:
        if annotated:
            outlast.annotate(asked="bank")
        fired.append(1)
        if len(fired) == 1:
            raise error
        return len(fired)

    @workflow
    async def buy() -> int:
        return await charge()

    return buy


async def test_a_client_with_another_codec_does_not_fire_a_once_step_again(open_app: OpenApp) -> None:
    buy = charging(ConnectionResetError("no answer"))
    async with open_app(codec=SQUEEZED) as app, open_app(worker=False) as other:
        run = await app.start(buy(), id="one")
        await stuck(run)
        await other.resolve("one", "charge", "fail")
        assert isinstance(await failure(run), outlast.InDoubt)
        await other.resume("one")
        assert (await stuck(run)).reason == "in_doubt"
        await app.resolve("one", "charge", Happened(7))
        assert await run.result() == 7
    assert len(fired) == 1


async def test_a_decision_of_no_use_to_the_workers_leaves_the_step_in_doubt(open_app: OpenApp) -> None:
    buy = charging(ConnectionResetError("no answer"))
    async with open_app(codec=SQUEEZED) as app, open_app(worker=False) as other:
        run = await app.start(buy(), id="one")
        await stuck(run)
        await other.resolve("one", "charge", Happened(7))
        await app.resolve("one", "charge", "fail") if (await stuck(run)).reason == "in_doubt" else None
        assert isinstance(await failure(run), outlast.InDoubt)
        await other.resume("one")
        assert (await stuck(run)).reason == "in_doubt"
    assert len(fired) == 1


@pytest.mark.parametrize("annotated", [False, True])
@pytest.mark.parametrize(
    ("error", "settings"),
    [(Declined("no"), {"definite": Declined}), (Unreached("down"), {"retry": Retry(attempts=1, on=Unreached)})],
    ids=["definite", "retried in vain"],
)
async def test_an_error_that_says_nothing_happened_is_known_to_any_client(
    open_app: OpenApp, error: Exception, settings: Any, annotated: bool
) -> None:
    buy = charging(error, annotated, **settings)
    async with open_app(codec=SQUEEZED) as app, open_app(worker=False) as other:
        run = await app.start(buy(), id="one")
        assert isinstance(await failure(run), type(error))
        await other.resume("one")
        assert await run.result() == 2


async def test_no_annotation_can_say_that_nothing_happened(open_app: OpenApp) -> None:
    @step(effect="once")
    async def charge() -> Any:
        outlast.annotate(**{"did not happen": True})
        fired.append(1)
        return object() if len(fired) == 1 else "paid"

    @workflow
    async def buy() -> Any:
        return await charge()

    async with open_app() as app:
        run = await app.start(buy(), id="one")
        assert isinstance(await failure(run), outlast.EncodingError)
        await app.resume("one")
        assert (await stuck(run)).reason == "in_doubt"
    assert len(fired) == 1
