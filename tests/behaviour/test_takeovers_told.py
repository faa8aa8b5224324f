"""A takeover is told once, however often the death that it follows is seen."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from outlast.core.records import WorkerRow
from outlast.stores.protocol import Survey
from outlast.stores.verbs import Answer, Register, TakenOver, TakeOver, Verb
from tests.behaviour.stage import Ears, OpenApp, eventually


async def test_a_death_that_is_seen_again_after_the_takeover_is_told_once(
    open_app: OpenApp, ears: Ears, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read before the commit of a takeover may be acted on after it, and a takeover that is sent again gets
    the same answer again.
    """
    async with open_app(on_event=ears, lease=0.3) as app:
        store, answers = app.store, list[Answer]()
        dead = WorkerRow(id="dead", pid=1, host="host", boot=store.lease_epoch())
        survey, transact = store.survey, store.transact

        def survey_with_the_dead(*asked: Any) -> Survey:
            found = survey(*asked)
            return replace(found, workers=[*(row for row in found.workers if row.id != "dead"), dead])

        def transact_and_note(verbs: list[Verb]) -> list[Answer]:
            answered = transact(verbs)
            answers.extend(a for v, a in zip(verbs, answered, strict=True) if isinstance(v, TakeOver))
            return answered

        monkeypatch.setattr(store, "survey", survey_with_the_dead)
        monkeypatch.setattr(store, "transact", transact_and_note)
        store.transact([Register(worker=dead, lease_s=0.0)])
        await eventually(lambda: answers[:1] == [TakenOver(())] and len(answers) >= 3)
        await ears.hear("worker.took_over")
        assert set(answers) == {TakenOver(())}
    assert len(ears.heard("worker.took_over")) == 1
