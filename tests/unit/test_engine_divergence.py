"""Code that changed under a run: what diverges is shown from both sides, and patched() guards what may change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import outlast
from outlast.core.errors import Diverged
from outlast.core.identity import shown
from outlast.core.records import Kind
from tests.support.rig import Body, Rig, a_step, a_workflow

fetch = a_step("fetch", effect="pure")
save = a_step("save")
charge = a_step("charge", effect="once")
child = a_workflow("child")


def _fetch() -> Any:
    return fetch("a")


def _save() -> Any:
    return save("b")


def _wait() -> Any:
    return asyncio.Event().wait()


async def _in_task(coroutine: Any) -> None:
    await asyncio.create_task(coroutine)


async def _recorded() -> None:
    await fetch("a")
    await save("b")
    await asyncio.sleep(5)
    await child("c")


def _journal(n: int) -> Rig:
    rig = Rig(_recorded).begin()
    deeds: list[Callable[[], Any]] = [
        lambda: rig.finish("main/fetch#1", 1),
        lambda: rig.finish("main/save#1", 2),
        rig.fire,
        lambda: rig.finish("main/child#1", 3),
    ]
    for deed in deeds[:n]:
        deed()
    return rig


def _other(*calls: Any) -> Body:
    async def body() -> None:
        for call in calls:
            await call()

    return body


@pytest.mark.parametrize(
    ("recorded", "body", "journal", "code"),
    [
        (1, _other(save), "#1 step main/fetch#1", "makes no such call at this point; it waits for main/save#1"),
        (1, _other(lambda: fetch("x")), '#1 step main/fetch#1 ["a"]', 'calls it with other arguments: ["x"]'),
        (
            1,
            _other(_wait),
            "#1 step main/fetch#1",
            "no such call at this point; it waits for nothing",
        ),
        (1, _other(), "#1 step main/fetch#1", "code:    returned"),
        (2, _other(lambda: fetch("a")), '#2 step main/save#1 ["b"]', "code:    returned"),
        (
            3,
            _other(_fetch, _save, lambda: child("c")),
            "#3 timer main/!timer#1",
            "no such timer",
        ),
        (
            3,
            _other(_fetch, _save, asyncio.Event().wait),
            "#3 timer main/!timer#1",
            "waits for nothing",
        ),
        (
            4,
            _other(_fetch, _save, lambda: asyncio.sleep(5), lambda: a_step("child")("c")),
            "#4 child main/child#1",
            "calls the step child here",
        ),
    ],
)
def test_a_body_that_does_something_else_diverges_with_both_sides_shown(
    recorded: int, body: Body, journal: str, code: str
) -> None:
    with pytest.raises(Diverged) as raised:
        _ = _journal(recorded).replay(body=body).outcome
    first, journal_side, code_side, advice = str(raised.value).splitlines()
    assert first.startswith("run run-1: ")
    assert journal_side.startswith(f"  journal: {journal}")
    assert code_side.startswith("  code:    ")
    assert code in code_side
    at = f"'{shown(journal.split()[2])}'"
    assert advice == (
        "Bring the old code back, or guard the change with outlast.patched(), then: outlast resume run-1. If no code "
        "was changed (what came of a failure cannot always be told when its run is resumed), start a new course: "
        f"outlast fork run-1 {at}"
    )


def test_a_diverged_run_records_nothing_and_starts_nothing() -> None:
    rig = _journal(2).replay(body=_other(lambda: save("other"), lambda: fetch("a")))
    assert rig.engine.failure is not None
    assert rig.engine.unsent == []
    assert rig.starts == []
    assert rig.engine.outcome is None


def test_a_step_whose_arguments_may_vary_is_not_held_to_them() -> None:
    lenient = fetch.options(check_args=False)
    rig = _journal(1).replay(body=_other(lambda: lenient("another"), lambda: save("b")))
    assert rig.engine.failure is None
    assert rig.waiting == ["main/save#1"]


def test_long_arguments_diverge_by_their_digest() -> None:
    rig = Rig(_other(lambda: fetch("x" * 5_000))).begin()
    rig.finish("main/fetch#1")
    assert rig.replay().engine.failure is None
    with pytest.raises(Diverged, match="other arguments: #"):
        _ = rig.replay(body=_other(lambda: fetch("y" * 5_000))).outcome


def test_a_child_that_was_started_and_is_not_called_any_more_diverges() -> None:
    rig = Rig(_other(lambda: child(5))).begin()
    rig.begin_child("main/child#1")
    assert rig.must_replay().engine.calls["main/child#1"].begun
    with pytest.raises(Diverged, match=r"#1 start main/child#1 \[\[5\],\{\}\]"):
        _ = rig.replay(body=_other(lambda: save(5))).outcome


def test_an_intent_for_a_call_that_is_made_with_other_arguments_diverges() -> None:
    rig = Rig(_other(lambda: charge(5))).begin()
    rig.intend("main/charge#1")
    with pytest.raises(Diverged, match=r"#1 intent main/charge#1 \[5\]"):
        _ = rig.replay(body=_other(lambda: charge(6))).outcome


# -- changes that are guarded ------------------------------------------------------------------------


async def _patched() -> str:
    await fetch()
    if outlast.patched("new way"):
        return str(await save("new"))
    return str(await save("old"))


async def _unpatched() -> str:
    await fetch()
    return str(await save("old"))


def test_a_run_that_passed_before_the_change_stays_on_the_old_side() -> None:
    rig = Rig(_unpatched).begin()
    rig.finish("main/fetch#1")
    rig.finish("main/save#1", "old")
    assert rig.replay(body=_patched).result == "old"


def test_a_new_run_takes_the_new_side_and_stays_there() -> None:
    rig = Rig(_patched).begin()
    rig.finish("main/fetch#1")
    assert rig.records[-1].kind is Kind.PATCH
    assert rig.engine.calls["main/save#1"].args == b'["new"]'
    rig.must_replay()
    rig.finish("main/save#1", "new")
    assert rig.result == "new"
    rig.must_replay()


def test_a_run_that_has_not_come_to_the_change_takes_the_new_side() -> None:
    rig = Rig(_unpatched).begin()
    changed = rig.replay(body=_patched)
    changed.finish("main/fetch#1")
    assert changed.engine.calls["main/save#1"].args == b'["new"]'
    changed.must_replay()


def test_an_answer_holds_for_the_whole_run() -> None:
    async def before() -> None:
        for _ in range(3):
            await fetch()

    async def after() -> list[bool]:
        answers = []
        for _ in range(3):
            answers.append(outlast.patched("x"))
            await fetch()
        return [*answers, outlast.patched("x"), outlast.patched("another")]

    rig = Rig(before).begin()
    rig.finish("main/fetch#1")
    changed = rig.replay(body=after)
    for n in (2, 3):
        changed.finish(f"main/fetch#{n}")
    assert changed.result == [False, False, False, False, True]
    changed.must_replay()


def test_a_change_may_be_taken_out_again_once_no_old_run_is_left() -> None:
    async def without_guard() -> str:
        await fetch()
        return str(await save("new"))

    rig = Rig(_patched).begin()
    rig.finish("main/fetch#1")
    rig.finish("main/save#1", "new")
    assert rig.replay(body=without_guard).result == "new"
