"""A step that must happen at most once: its intent is committed first, an uncertain end is never repeated by itself."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import outlast
from outlast import DidNotHappen, Happened, Retry, StepTimeout, step, workflow
from outlast.runtime import steps
from tests.behaviour.stage import Door, Ears, OpenApp, Restart, failure, stuck

sent: list[Any] = []


class CardDeclined(Exception):
    pass


class ConnectError(Exception):
    pass


@pytest.fixture(autouse=True)
def nothing_sent() -> None:
    sent.clear()


def paying(pay: Any) -> Any:
    @workflow
    async def flow(cents: int = 5) -> Any:
        return await pay.call(cents)

    return flow


# -- certain outcomes -------------------------------------------------------------------------


async def test_its_intent_is_committed_before_it_runs(open_app: OpenApp) -> None:
    async with open_app(worker=False) as client:

        @step(effect="once")
        async def pay(cents: int) -> str:
            seen = await (await client.get("one")).steps()
            sent.append([(s.id, s.state, s.attempts, s.effect) for s in seen])
            return "receipt"

        async with open_app() as app:
            run = await app.start(paying(pay)(), id="one")
            assert await run.result() == "receipt"
            assert [(s.id, s.state) for s in await run.steps()] == [("main/pay#1", "done")]
    assert sent == [[("main/pay#1", "in_doubt", 1, "once")]]


async def test_a_blocking_once_step_works_alike(open_app: OpenApp) -> None:
    @step(effect="once")
    def pay(cents: int) -> str:
        sent.append(threading.current_thread().name)
        return "receipt"

    async with open_app() as app:
        assert await (await app.start(paying(pay)())).result() == "receipt"
    assert len(sent) == 1
    assert sent[0].startswith("outlast-step")


async def test_its_result_is_never_made_again(restart: Restart) -> None:
    @step(effect="once")
    async def pay(cents: int) -> int:
        sent.append(cents)
        return len(sent)

    @workflow
    async def flow() -> int:
        receipt = await pay(5)
        await restart.point()
        return receipt

    assert await restart.result(flow()) == 1
    assert sent == [5]


async def test_a_definite_error_is_an_answer(open_app: OpenApp) -> None:
    @step(effect="once", definite=CardDeclined, retry=Retry(attempts=3, initial=0, on=ConnectError))
    async def pay(cents: int) -> None:
        sent.append(cents)
        raise CardDeclined("funds")

    async with open_app() as app:
        run = await app.start(paying(pay)())
        assert isinstance(await failure(run), CardDeclined)
        assert (await run.steps())[0].state == "failed"
    assert sent == [5]


async def test_an_error_that_proves_nothing_happened_is_tried_again_with_the_same_key(open_app: OpenApp) -> None:
    @step(effect="once", retry=Retry(attempts=3, initial=0, on=ConnectError))
    async def pay(cents: int) -> str:
        sent.append(outlast.idempotency_key())
        if len(sent) < 3:
            raise ConnectError
        return "receipt"

    async with open_app() as app:
        assert await (await app.start(paying(pay)())).result() == "receipt"
    assert len(sent) == 3
    assert len(set(sent)) == 1


async def test_when_its_attempts_are_used_up_the_last_error_is_its_outcome(open_app: OpenApp) -> None:
    @step(effect="once", retry=Retry(attempts=2, initial=0, on=ConnectError))
    async def pay(cents: int) -> None:
        sent.append(cents)
        raise ConnectError

    async with open_app() as app:
        run = await app.start(paying(pay)())
        assert isinstance(await failure(run), ConnectError)
        assert await run.status() == "failed"
    assert len(sent) == 2


async def test_a_subclass_of_a_definite_error_is_definite(open_app: OpenApp) -> None:
    class Insufficient(CardDeclined):
        pass

    @step(effect="once", definite=(CardDeclined, KeyError))
    async def pay(cents: int) -> None:
        raise Insufficient

    async with open_app() as app:
        run = await app.start(paying(pay)())
        await failure(run)
        assert await run.status() == "failed"


# -- uncertain outcomes ------------------------------------------------------------------------


async def test_any_other_error_leaves_it_in_doubt_and_the_run_stuck(open_app: OpenApp, ears: Ears) -> None:
    @step(effect="once", definite=CardDeclined, retry=Retry(attempts=5, initial=0, on=ConnectError))
    async def pay(cents: int) -> None:
        sent.append(cents)
        raise TimeoutError("read timed out")

    async with open_app(on_event=ears) as app:
        run = await app.start(paying(pay)(), id="one")
        info = await stuck(run)
        assert (info.status, info.reason) == ("stuck", "in_doubt")
        assert (
            "step main/pay#1 of run one: attempt 1 is in doubt (it ended with TimeoutError: read timed out)"
            in info.detail
        )
        assert "outlast resolve one 'main/pay#1' --attempt 1 --happened JSON | --did-not-happen | --fail" in info.detail
        assert [(s.id, s.state, s.attempts) for s in await run.steps()] == [("main/pay#1", "in_doubt", 1)]
        (notice,) = ears.heard("step.in_doubt")
        assert notice.data["run"] == "one"
        assert notice.data["step"] == "main/pay#1"
        assert notice.data["attempt"] == 1
    assert sent == [5]
    async with open_app() as app:
        assert await (await app.get("one")).status() == "stuck"  # and stays so
    assert sent == [5]


@pytest.mark.parametrize("error", [KeyError("x"), asyncio.CancelledError(), outlast.WrongUse("x"), GeneratorExit()])
async def test_no_error_is_taken_for_a_no_by_accident(open_app: OpenApp, error: BaseException) -> None:
    @step(effect="once")
    async def pay(cents: int) -> None:
        sent.append(cents)
        raise error

    async with open_app() as app:
        assert (await stuck(await app.start(paying(pay)()))).reason == "in_doubt"
    assert sent == [5]


@pytest.mark.parametrize("blocking", [False, True], ids=["async", "thread"])
async def test_a_timeout_leaves_it_in_doubt(open_app: OpenApp, blocking: bool) -> None:
    door = Door()

    @step(effect="once", timeout=0.02)
    async def pay(cents: int) -> None:
        sent.append(cents)
        await door.passed()

    @step(effect="once", timeout=0.02, name="pay")
    def pay_blocking(cents: int) -> None:
        sent.append(cents)
        door.pass_in_thread()

    async with open_app() as app:
        info = await stuck(await app.start(paying(pay_blocking if blocking else pay)()))
        assert info.reason == "in_doubt"
        assert StepTimeout.__name__ in info.detail
        door.open()
    assert sent == [5]


@pytest.mark.parametrize("blocking", [False, True], ids=["async", "thread"])
@pytest.mark.parametrize("kind", [TimeoutError, OSError, outlast.OutlastError, Exception, BaseException])
@pytest.mark.parametrize("listed", ["on", "definite"])
async def test_no_class_that_is_listed_makes_a_timeout_of_outlast_a_proof_or_an_answer(
    open_app: OpenApp, listed: str, kind: type[BaseException], blocking: bool
) -> None:
    door = Door()
    lists: dict[str, Any] = {"definite": kind} if listed == "definite" else {"retry": Retry(initial=0, on=kind)}

    @step(effect="once", timeout=0.02, **lists)
    async def pay(cents: int) -> None:
        sent.append(cents)
        await door.passed()

    @step(effect="once", timeout=0.02, name="pay", **lists)
    def pay_blocking(cents: int) -> None:
        sent.append(cents)
        door.pass_in_thread()

    async with open_app() as app:
        info = await stuck(await app.start(paying(pay_blocking if blocking else pay)()))
        assert (info.reason, StepTimeout.__name__ in info.detail) == ("in_doubt", True)
        door.open()
    assert sent == [5]


@pytest.mark.parametrize("blocking", [False, True], ids=["async", "thread"])
@pytest.mark.parametrize("error", [asyncio.CancelledError(), SystemExit(1), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("kind", [Exception, BaseException])
async def test_what_ends_an_attempt_without_an_answer_is_none_whatever_is_listed(
    open_app: OpenApp, kind: type[BaseException], error: BaseException, blocking: bool
) -> None:
    @step(effect="once", definite=kind, retry=Retry(initial=0, on=kind))
    async def pay(cents: int) -> None:
        sent.append(cents)
        raise error

    @step(effect="once", name="pay", definite=kind, retry=Retry(initial=0, on=kind))
    def pay_blocking(cents: int) -> None:
        sent.append(cents)
        raise error

    async with open_app() as app:
        assert (await stuck(await app.start(paying(pay_blocking if blocking else pay)()))).reason == "in_doubt"
    assert sent == [5]


@pytest.mark.parametrize("blocking", [False, True], ids=["async", "thread"])
async def test_a_timeout_that_the_steps_own_code_raises_is_what_the_user_lists_it_as(
    open_app: OpenApp, blocking: bool
) -> None:
    lists: dict[str, Any] = {"definite": KeyError, "retry": Retry(attempts=2, initial=0, on=TimeoutError)}

    @step(effect="once", **lists)
    async def pay(cents: int) -> str:
        sent.append(cents)
        if len(sent) == 1:
            async with asyncio.timeout(0):
                await asyncio.sleep(3600)
        return "receipt"

    @step(effect="once", name="pay", **lists)
    def pay_blocking(cents: int) -> str:
        sent.append(cents)
        if len(sent) == 1:
            raise TimeoutError("no route to them")
        return "receipt"

    async with open_app() as app:
        assert await (await app.start(paying(pay_blocking if blocking else pay)())).result() == "receipt"
    assert sent == [5, 5]


@pytest.mark.parametrize("lists", [{"definite": StepTimeout}, {"retry": Retry(on=(OSError, StepTimeout))}], ids=str)
def test_a_once_step_cannot_list_the_timeout_of_outlast(lists: dict[str, Any]) -> None:
    with pytest.raises(outlast.WrongUse, match="cannot list StepTimeout: an attempt that was cut off is in doubt"):

        @step(effect="once", **lists)
        async def pay(cents: int) -> None: ...

    @step(effect="once")
    async def refund(cents: int) -> None: ...

    with pytest.raises(outlast.WrongUse, match="cannot list StepTimeout"):
        refund.options(**lists)


async def test_a_timeout_that_is_always_over_before_the_commit_fails_by_name_and_sends_nothing(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "COMMIT_ALLOWANCE_S", 0.0)

    @step(effect="once", timeout=1e-6)
    async def pay(cents: int) -> None:
        sent.append(cents)

    async with open_app() as app:
        run = await app.start(paying(pay)(), id="one")
        back = await failure(run)
        assert isinstance(back, StepTimeout)
        assert "before its intent was committed; nothing was sent. Give it a longer timeout" in str(back)
        assert await run.status() == "failed"
    assert sent == []


async def test_an_attempt_cut_off_by_a_restart_is_in_doubt(open_app: OpenApp) -> None:
    door = Door()

    @step(effect="once")
    async def pay(cents: int) -> str:
        sent.append(cents)
        await door.passed()
        return "receipt"

    async with open_app(lease=0.3) as app:
        await app.start(paying(pay)(), id="one")
        await door.reached()
    door.open()
    async with open_app(lease=0.3) as app:
        info = await stuck(await app.get("one"))
        assert "its worker, of this process, gave it up before its outcome was recorded" in info.detail
    assert sent == [5]


def deploy(effect: Any, door: Door) -> Any:
    """Return the workflow of a program whose step has this effect by now."""

    @step(effect=effect)
    async def pay(cents: int) -> str:
        sent.append(cents)
        await door.passed()
        return "receipt"

    @workflow
    async def flow() -> str:
        return await pay(5)

    return flow


@pytest.mark.parametrize("weaker", ["idempotent", "pure"])
async def test_a_deploy_that_weakens_the_effect_does_not_weaken_an_open_attempt(open_app: OpenApp, weaker: str) -> None:
    door = Door()
    async with open_app(lease=0.3) as app:
        await app.start(deploy("once", door)(), id="one")
        await door.reached()
    door.open()
    deploy(weaker, door)
    async with open_app(lease=0.3) as app:
        run = await app.get("one")
        assert (await stuck(run)).reason == "in_doubt"
        await app.resolve("one", "pay", "fail")
        assert isinstance(await failure(run), outlast.InDoubt)
        run = await app.resume("one")  # the decision is taken back, but nobody knows more than before
        assert (await stuck(run)).reason == "in_doubt"
        assert {s.effect for s in await run.steps()} == {"once"}
        await app.resolve("one", "pay", Happened("found"))
        assert await run.result() == "found"
    assert sent == [5]


async def test_other_steps_go_to_their_ends_before_the_run_is_stuck(open_app: OpenApp) -> None:
    door = Door()

    @step(effect="once")
    async def pay(cents: int) -> None:
        raise TimeoutError

    @step
    async def beside() -> str:
        await door.passed()
        return "done"

    @workflow
    async def flow() -> None:
        await asyncio.gather(pay(5), beside())

    async with open_app() as app:
        run = await app.start(flow())
        await door.reached()
        assert await run.status() == "running"
        door.open()
        await stuck(run)
        assert {s.name: s.state for s in await run.steps()} == {"pay": "in_doubt", "beside": "done"}


async def test_did_not_happen_is_no_answer_for_a_run_that_is_not_in_doubt(open_app: OpenApp) -> None:
    @step(effect="once")
    async def pay(cents: int) -> str:
        return "receipt"

    async with open_app() as app:
        run = await app.start(paying(pay)(), id="one")
        await run.result()
        with pytest.raises(outlast.NotResumable, match="no step 'pay' in doubt; in doubt: none"):
            await app.resolve("one", "pay", DidNotHappen())
