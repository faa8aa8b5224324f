"""What a client is given that makes no sense is refused before a store sees it, with the argument's name."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable
from math import nan
from typing import Any

import pytest

import outlast
from outlast import App, DidNotHappen, Run, Schedule, WrongUse, step, workflow
from tests.behaviour.flows import doubled
from tests.behaviour.stage import Ears, OpenApp, stuck

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
NO_TEXT: list[Any] = [5, 1.5, [], {}, b"x", NOW, "a\0b", "a\ud800b", "x" * 300_000]
NO_NAME = [*NO_TEXT, "", None]
NO_WHOLE: list[Any] = ["5", 1.5, nan, -1, 10**30, True, [], {}, b"x", NOW]
NO_FLAG: list[Any] = ["yes", 1, 0.5, [], NOW]
NO_WAIT: list[Any] = ["5", nan, -1, True, [], NOW]
NO_MOMENT: list[Any] = ["soon", 5, None, [], dt.datetime(2026, 1, 1)]  # noqa: DTZ001

Act = Callable[[App, Run[Any], Schedule, Any], Awaitable[Any]]

WRONG: dict[str, tuple[list[Any], Act]] = {
    "start id": (NO_TEXT, lambda app, run, s, v: app.start(doubled(1), id=v)),
    "get id": (NO_NAME, lambda app, run, s, v: app.get(v)),
    "cancel id": (NO_NAME, lambda app, run, s, v: app.cancel(v)),
    "resume id": (NO_NAME, lambda app, run, s, v: app.resume(v)),
    "trigger id": (NO_TEXT, lambda app, run, s, v: s.trigger(id=v)),
    "upcoming count": (NO_WHOLE, lambda app, run, s, v: s.upcoming(v)),
    "backfill start": (NO_MOMENT, lambda app, run, s, v: s.backfill(v, NOW)),
    "backfill end": (NO_MOMENT, lambda app, run, s, v: s.backfill(NOW, v)),
    "pause_queue name": (NO_NAME, lambda app, run, s, v: app.pause_queue(v)),
    "pause_queue by": ([*NO_TEXT, None], lambda app, run, s, v: app.pause_queue("q", by=v)),
    "resume_queue name": (NO_NAME, lambda app, run, s, v: app.resume_queue(v)),
    "hold id": (NO_TEXT, lambda app, run, s, v: app.hold(v)),
    "hold workflow": (NO_TEXT, lambda app, run, s, v: app.hold(workflow=v)),
    "hold version": (NO_TEXT, lambda app, run, s, v: app.hold(version=v)),
    "release workflow": (NO_TEXT, lambda app, run, s, v: app.release(workflow=v)),
    "release version": (NO_TEXT, lambda app, run, s, v: app.release(version=v)),
    "move workflow": (NO_NAME, lambda app, run, s, v: app.move(v, "to")),
    "move to": (NO_NAME, lambda app, run, s, v: app.move("from", v)),
    "move version": (NO_TEXT, lambda app, run, s, v: app.move("from", "to", version=v)),
    "send run": (NO_NAME, lambda app, run, s, v: app.send(v, "name")),
    "send name": (NO_NAME, lambda app, run, s, v: run.send(v)),
    "send id": (NO_TEXT, lambda app, run, s, v: run.send("name", id=v)),
    "send early": (NO_FLAG, lambda app, run, s, v: app.send("later", "name", early=v)),
    "approve id": ([*NO_TEXT, None], lambda app, run, s, v: app.approve(v)),
    "approve by": ([*NO_TEXT, None], lambda app, run, s, v: app.approve("id", by=v)),
    "reject note": ([*NO_TEXT, None], lambda app, run, s, v: app.reject("id", note=v)),
    "approvals status": ([*NO_TEXT, "done"], lambda app, run, s, v: app.approvals(status=v)),
    "approvals run": (NO_TEXT, lambda app, run, s, v: app.approvals(run=v)),
    "approvals to": (NO_TEXT, lambda app, run, s, v: app.approvals(to=v)),
    "approvals limit": ([*NO_WHOLE, None], lambda app, run, s, v: app.approvals(limit=v)),
    "approvals after": (NO_TEXT, lambda app, run, s, v: app.approvals(after=v)),
    "runs status": ([5, 1.5, {}, NOW, "done", ["done"], [5]], lambda app, run, s, v: app.runs(status=v)),
    "runs reason": ([*NO_TEXT, "bored"], lambda app, run, s, v: app.runs(reason=v)),
    "runs workflow": (NO_TEXT, lambda app, run, s, v: app.runs(workflow=v)),
    "runs version": (NO_TEXT, lambda app, run, s, v: app.runs(version=v)),
    "runs id_prefix": (NO_TEXT, lambda app, run, s, v: app.runs(id_prefix=v)),
    "runs limit": ([*NO_WHOLE, None], lambda app, run, s, v: app.runs(limit=v)),
    "runs before": (NO_TEXT, lambda app, run, s, v: app.runs(before=v)),
    "steps after": ([*NO_WHOLE, None], lambda app, run, s, v: run.steps(after=v)),
    "steps limit": (NO_WHOLE, lambda app, run, s, v: run.steps(limit=v)),
    "result timeout": (NO_WAIT, lambda app, run, s, v: run.result(v)),
    "value name": (NO_NAME, lambda app, run, s, v: run.value(v)),
    "resolve step": (NO_NAME, lambda app, run, s, v: app.resolve("one", v, "fail")),
    "resolve attempt": (NO_WHOLE, lambda app, run, s, v: app.resolve("one", "doubtful", "fail", attempt=v)),
    "resolve decision": ([*NO_TEXT, "no"], lambda app, run, s, v: app.resolve("one", "doubtful", v)),
    "resolve by": ([5, [], None], lambda app, run, s, v: app.resolve("one", "doubtful", DidNotHappen(), by=v)),
    "fork step": (NO_NAME, lambda app, run, s, v: app.fork("one", v)),
    "fork new_id": (NO_TEXT, lambda app, run, s, v: app.fork("one", "doubtful", new_id=v)),
    "fork repeat_once": (NO_FLAG, lambda app, run, s, v: app.fork("one", "doubtful", repeat_once=v)),
    "schedule name": (NO_NAME, lambda app, run, s, v: app.schedule(v, doubled(1), every=60)),
    "schedule cron": (NO_TEXT, lambda app, run, s, v: app.schedule("s", doubled(1), cron=v)),
    "schedule timezone": (NO_NAME, lambda app, run, s, v: app.schedule("s", doubled(1), cron="0 0 1 1 *", timezone=v)),
    "schedule paused": (NO_FLAG, lambda app, run, s, v: app.schedule("s", doubled(1), every=60, paused=v)),
}


@step(effect="once")
async def doubtful() -> None:
    raise ConnectionError


@workflow
async def doubting() -> None:
    await doubtful()


async def test_each_is_refused_and_named(open_app: OpenApp, ears: Ears) -> None:
    async with open_app(on_event=ears) as app:
        run = await app.start(doubting(), id="one")
        await stuck(run)
        schedule = await app.schedule("s", doubled(1), every=3600)
        for what, (values, act) in WRONG.items():
            for value in values:
                with pytest.raises(WrongUse) as refused:
                    await act(app, run, schedule, value)
                text = str(refused.value)
                assert len(text) < 1_000, what
                assert text.isprintable(), what
        assert ears.heard("store.failed") == []
        assert [info.id for info in await app.runs(limit=0)] == []
        assert [info.name for info in [await schedule.info()]] == ["s"]


@pytest.mark.parametrize(
    ("act", "text"),
    [
        (lambda app: app.move(5, 6), r"app.move(workflow=5): must be a str, not empty, of at most 2000 bytes"),
        (lambda app: app.runs(limit="ten"), "app.runs(limit='ten'): must be a whole number, at least 0"),
        (lambda app: app.runs(status="done"), "app.runs(status='done'): must be one of pending, running, waiting"),
        (lambda app: app.pause_queue("q", by="\0"), r"app.pause_queue(by='\x00'): must be a str, of at most 100000"),
        (lambda app: app.schedule("", doubled(1), every=5), "a schedule's name cannot be empty"),
        (lambda app: app.schedule("s", doubled(1), every=5, paused="no"), "app.schedule(paused='no'): must be True or"),
    ],
)
async def test_the_refusal_says_what_was_given_and_what_it_takes(open_app: OpenApp, act: Any, text: str) -> None:
    async with open_app() as app:
        with pytest.raises(WrongUse) as refused:
            await act(app)
        assert text in str(refused.value)


async def test_a_wait_for_a_message_is_not_negative(open_app: OpenApp) -> None:
    @workflow
    async def waiting() -> str:
        with pytest.raises(WrongUse) as refused:
            outlast.receive("x", timeout=-1)
        return str(refused.value)

    async with open_app() as app:
        said = await (await app.start(waiting())).result()
        assert said == "outlast.receive(timeout=-1): must be a finite number of seconds, not negative"
