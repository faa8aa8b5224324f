"""`confirm` says what became of an attempt in doubt; a "no" is believed once nothing can be sent any more."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import outlast
from outlast import DidNotHappen, Happened, Retry, Unknown, WrongUse, step, workflow
from outlast.runtime import doubt
from tests.behaviour.stage import OpenApp, reaches, stuck

sent: list[Any] = []
asked: list[Any] = []


@dataclass
class Receipt:
    id: str
    cents: int


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    sent.clear()
    asked.clear()
    monkeypatch.setattr(doubt, "LOOK_AGAIN_S", 0.01)


def shop(confirm: Callable[..., Any] | None, fails: int = 1, **settings: Any) -> Any:
    """Return a workflow of one `once` step whose first attempts end without a certain outcome."""

    @step(effect="once", confirm=confirm, settle=settings.pop("settle", 0), **settings)
    async def pay(card: str, *, cents: int) -> Receipt:
        sent.append(outlast.idempotency_key())
        if len(sent) <= fails:
            raise TimeoutError("read timed out")
        return Receipt("r-live", cents)

    @workflow
    async def flow() -> Receipt:
        return await pay("card", cents=5)

    return flow


async def test_happened_gives_the_step_its_result(open_app: OpenApp) -> None:
    async def confirm(key: str, card: str, *, cents: int) -> Any:
        asked.append((key, card, cents))
        return Happened(Receipt("r-1", cents))

    async with open_app() as app:
        run = await app.start(shop(confirm)())
        assert await run.result() == Receipt("r-1", 5)
        assert [(s.state, s.attempts, s.note) for s in await run.steps()] == [("done", 1, "confirmed: happened")]
    assert len(sent) == 1
    assert asked == [(sent[0], "card", 5)]


async def test_happened_is_believed_at_once_whatever_has_still_to_settle(open_app: OpenApp) -> None:
    async def confirm(key: str, card: str, *, cents: int) -> Any:
        return Happened(Receipt("r-1", cents))

    async with open_app() as app:
        assert await (await app.start(shop(confirm, settle=3600)())).result() == Receipt("r-1", 5)


async def test_did_not_happen_lets_the_step_be_tried_again_with_the_same_key(open_app: OpenApp) -> None:
    async def confirm(key: str, card: str, *, cents: int) -> Any:
        asked.append(key)
        return DidNotHappen()

    async with open_app() as app:
        run = await app.start(shop(confirm)())
        assert await run.result() == Receipt("r-live", 5)
        assert [(s.state, s.attempts) for s in await run.steps()] == [("done", 2)]
    assert sent == [asked[0]] * 2


async def test_what_was_in_doubt_and_what_confirm_said_stays_known(open_app: OpenApp) -> None:
    answers: list[Any] = [DidNotHappen(), Happened(Receipt("r-2", 5))]

    async def confirm(key: str, card: str, *, cents: int) -> Any:
        return answers.pop(0)

    async with open_app() as app:
        run = await app.start(shop(confirm, fails=2)())
        assert await run.result() == Receipt("r-2", 5)
        (shown,) = await run.steps()
    assert shown.history == (
        "in doubt: it ended with TimeoutError: read timed out",
        "confirmed: did not happen",
        "in doubt: it ended with TimeoutError: read timed out",
        "confirmed: happened",
    )


async def test_did_not_happen_is_believed_only_after_it_has_settled_and_asked_again(open_app: OpenApp) -> None:
    answers: list[Any] = [DidNotHappen(), Happened(Receipt("r-late", 5))]

    async def confirm(key: str, card: str, *, cents: int) -> Any:
        asked.append(1)
        return answers.pop(0)

    async with open_app() as app:
        assert await (await app.start(shop(confirm, settle=0.1)())).result() == Receipt("r-late", 5)
    assert (len(sent), len(asked)) == (1, 2)


async def test_what_is_waited_for_is_shown(open_app: OpenApp) -> None:
    async def confirm(key: str, card: str, *, cents: int) -> Any:
        asked.append(1)
        return DidNotHappen()

    async with open_app() as app:
        run = await app.start(shop(confirm, settle=3600)(), id="one")
        await reaches(run, "waiting")
        assert "3600 s to pass since the attempt could last send anything" in (await run.info()).detail
    assert len(sent) == 1


async def test_resting_meanwhile_does_not_make_the_wait_longer(open_app: OpenApp) -> None:
    """The attempt ended in this process: `settle` counts from there, though the run leaves memory in between."""

    async def confirm(key: str, card: str, *, cents: int) -> Any:
        return DidNotHappen()

    async with open_app(park_after=0) as app:  # a `once` attempt has 60 s by default, which nobody waits for here
        assert await (await app.start(shop(confirm, settle=0.3)())).result() == Receipt("r-live", 5)


async def test_unknown_asks_a_person(open_app: OpenApp) -> None:
    async def confirm(key: str, card: str, *, cents: int) -> Any:
        return Unknown()

    async with open_app() as app:
        assert (await stuck(await app.start(shop(confirm)()))).reason == "in_doubt"
    assert len(sent) == 1


@pytest.mark.parametrize("answer", [None, True, False, "happened", Happened, DidNotHappen])
async def test_an_answer_that_is_none_asks_a_person_and_is_shown(open_app: OpenApp, answer: Any) -> None:
    async def confirm(key: str, card: str, *, cents: int) -> Any:
        return answer

    async with open_app() as app:
        info = await stuck(await app.start(shop(confirm)()))
        assert f"its confirm answered {answer!r}, not Happened(value), DidNotHappen() or Unknown()" in info.detail
    assert len(sent) == 1


@pytest.mark.parametrize("value", [threading.Lock(), object(), {"id": "r-1"}, "r-1", 5, None])
async def test_a_value_of_no_use_asks_a_person(open_app: OpenApp, value: Any) -> None:
    """One that cannot be stored, or is not what the step returns, is neither a yes to build on nor a no."""

    async def confirm(key: str, card: str, *, cents: int) -> Any:
        return Happened(value)

    async with open_app() as app:
        run = await app.start(shop(confirm)(), id="one")
        assert "with a value of no use" in (await stuck(run)).detail
        await app.resolve("one", "pay", Happened(Receipt("r-1", 5)))
        assert await run.result() == Receipt("r-1", 5)
    assert len(sent) == 1


async def test_plain_json_from_confirm_is_given_as_what_the_step_returns(open_app: OpenApp) -> None:
    async def confirm(key: str, card: str, *, cents: int) -> Any:
        return Happened({"id": "r-1", "cents": cents})

    async with open_app() as app:
        assert await (await app.start(shop(confirm)())).result() == Receipt("r-1", 5)
    assert len(sent) == 1


async def test_a_confirm_that_fails_is_asked_again(open_app: OpenApp) -> None:
    async def confirm(key: str, card: str, *, cents: int) -> Any:
        asked.append(1)
        if len(asked) < 3:
            raise ConnectionError("their API is down")
        return Happened(Receipt("r-1", cents))

    async with open_app() as app:
        assert await (await app.start(shop(confirm)())).result() == Receipt("r-1", 5)
    assert (len(sent), len(asked)) == (1, 3)


async def test_a_confirm_that_fails_for_good_asks_a_person(open_app: OpenApp) -> None:
    async def confirm(key: str, card: str, *, cents: int) -> Any:
        asked.append(1)
        raise ConnectionError("their API is down")

    async with open_app() as app:
        info = await stuck(await app.start(shop(confirm)()))
        assert "its confirm failed with ConnectionError: their API is down" in info.detail
    assert len(sent) == 1
    assert 1 < len(asked) < 20


async def test_a_confirm_that_hangs_asks_a_person(open_app: OpenApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doubt, "CONFIRM_TIMEOUT_S", 0.02)

    async def confirm(key: str, card: str, *, cents: int) -> Any:
        await asyncio.sleep(3600)

    async with open_app() as app:
        info = await stuck(await app.start(shop(confirm)()))
        assert "its confirm failed with TimeoutError" in info.detail
    assert len(sent) == 1


async def test_a_confirm_whose_wrapper_hides_that_it_takes_other_arguments_asks_a_person(open_app: OpenApp) -> None:
    async def confirm(*whatever: Any, **named: Any) -> Any:
        return one_argument(*whatever, **named)

    def one_argument(key: str) -> Any:
        return DidNotHappen()

    async with open_app() as app:
        info = await stuck(await app.start(shop(confirm)()))
        assert "its confirm failed with TypeError" in info.detail
    assert len(sent) == 1


@pytest.mark.parametrize(
    "confirm",
    [
        True,
        "find",
        DidNotHappen,
        lambda key: DidNotHappen(),
        lambda key, card: DidNotHappen(),
        lambda key, card, *, euros: DidNotHappen(),
        lambda key, card, extra, *, cents: DidNotHappen(),
    ],
)
def test_a_confirm_that_could_not_be_asked_is_refused_where_it_is_written(confirm: Any) -> None:
    with pytest.raises(
        WrongUse, match=r"step pay: confirm=.*(must be a function|write it as .*card: 'str', \*, cents)"
    ):
        shop(confirm)

    @step(effect="once")
    async def refund(card: str, *, cents: int) -> None: ...

    with pytest.raises(WrongUse, match="step refund: confirm="):
        refund.options(confirm=confirm)


@pytest.mark.parametrize(
    "confirm",
    [
        lambda key, card, *, cents: DidNotHappen(),
        lambda token, to, cents: DidNotHappen(),
        lambda key, *args, **kwargs: DidNotHappen(),
        functools.partial(lambda bank, key, card, *, cents: DidNotHappen(), "bank"),
    ],
)
def test_a_confirm_that_can_be_asked_is_taken(confirm: Any) -> None:
    shop(confirm)


async def test_a_confirm_names_its_parameters_as_it_likes_however_the_call_was_spelt(open_app: OpenApp) -> None:
    def find(token: str, to_whom: str, how_much: int) -> Any:
        return Happened(f"{how_much} to {to_whom}")

    @step(effect="once", confirm=find, settle=0)
    async def send(account: str, cents: int) -> str:
        raise TimeoutError("read timed out")

    @workflow
    async def flow() -> str:
        return await send(cents=5, account="ann")

    async with open_app() as app:
        assert await (await app.start(flow())).result() == "5 to ann"


async def test_the_confirm_of_a_method_takes_what_the_method_takes_without_its_object(open_app: OpenApp) -> None:
    def find(key: str, cents: int) -> Any:
        return Happened(f"paid {cents}")

    class Bank:
        @step(effect="once", confirm=find, settle=0)
        async def pay(self, cents: int) -> str:
            raise TimeoutError("read timed out")

    bank = Bank()

    @workflow
    async def flow() -> str:
        return await bank.pay(5)

    async with open_app() as app:
        assert await (await app.start(flow())).result() == "paid 5"
    with pytest.raises(WrongUse, match=r"write it as <lambda>\(key, cents: 'int'\)"):

        class Other:
            @step(effect="once", confirm=lambda key: DidNotHappen())
            async def pay(self, cents: int) -> str: ...


async def test_a_confirm_may_block_in_a_thread(open_app: OpenApp) -> None:
    def confirm(key: str, card: str, *, cents: int) -> Any:
        asked.append(threading.current_thread() is threading.main_thread())
        return Happened(Receipt("r-1", cents))

    async with open_app() as app:
        assert await (await app.start(shop(confirm)())).result() == Receipt("r-1", 5)
    assert asked == [False]


async def test_a_confirm_can_be_a_lambda_a_method_or_a_step(open_app: OpenApp) -> None:
    class Payments:
        async def find(self, key: str, card: str, *, cents: int) -> Any:
            return Happened(Receipt("by method", cents))

    @step
    async def as_step(key: str, card: str, *, cents: int) -> Any:
        return Happened(Receipt("by step", cents))

    confirms: list[tuple[str, Any]] = [
        ("by lambda", lambda key, card, *, cents: Happened(Receipt("by lambda", cents))),
        ("by method", Payments().find),
        ("by step", as_step),
    ]
    async with open_app() as app:
        for name, confirm in confirms:
            sent.clear()
            assert await (await app.start(shop(confirm)())).result() == Receipt(name, 5)


async def test_a_confirm_knows_where_it_is(open_app: OpenApp) -> None:
    async def confirm(key: str, card: str, *, cents: int) -> Any:
        asked.append((outlast.current.run_id, outlast.current.step_id, outlast.idempotency_key() == key))
        return Unknown()

    async with open_app() as app:
        await stuck(await app.start(shop(confirm)(), id="one"))
    assert asked == [("one", "main/pay#1", True)]


async def test_retries_and_confirmations_go_together(open_app: OpenApp) -> None:
    class ConnectError(Exception):
        pass

    async def confirm(key: str) -> Any:
        return DidNotHappen()

    @step(effect="once", confirm=confirm, settle=0, retry=Retry(attempts=9, initial=0, on=ConnectError))
    async def pay() -> str:
        sent.append(outlast.attempt())
        if len(sent) in (1, 3):
            raise ConnectError
        if len(sent) == 2:
            raise TimeoutError
        return "receipt"

    @workflow
    async def flow() -> str:
        return await pay()

    async with open_app() as app:
        assert await (await app.start(flow())).result() == "receipt"
    assert sent == [1, 2, 3, 4]


async def test_parallel_attempts_in_doubt_are_each_asked_about(open_app: OpenApp) -> None:
    async def confirm(key: str, n: int) -> Any:
        asked.append(n)
        return Happened(n * 10) if n % 2 else DidNotHappen()

    @step(effect="once", confirm=confirm, settle=0)
    async def pay(n: int) -> int:
        sent.append(n)
        if sent.count(n) == 1:
            raise TimeoutError
        return n

    @workflow
    async def flow() -> list[int]:
        return list(await asyncio.gather(*(pay(n) for n in range(6))))

    async with open_app() as app:
        assert await (await app.start(flow())).result() == [0, 10, 2, 30, 4, 50]
    assert sorted(sent) == [0, 0, 1, 2, 2, 3, 4, 4, 5]
