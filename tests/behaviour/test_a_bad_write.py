"""What one write brings about that nobody has foreseen happens to that write alone, whatever shares its batch."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

import outlast
from outlast import App, StoreError, step, workflow
from outlast.stores.verbs import Beat, Send, Verb, Write
from tests.behaviour.flows import doubled, executed
from tests.behaviour.gated_store import Gate
from tests.behaviour.stage import Ears, OpenApp, eventually, reaches


@step(effect="once")
async def pay(n: int) -> int:
    executed.append(n)
    return n


@workflow
async def paying(n: int) -> list[int]:
    return [await pay(i) for i in range(n)]


@workflow
async def waiting() -> str:
    return str(await outlast.receive("go"))


def fails_on(gate: Gate, name: str) -> list[int]:
    """Have each batch fail that holds a message of this name; return the sizes of those that did."""
    sizes: list[int] = []

    def fault(verbs: Sequence[Verb]) -> str:
        if any(isinstance(verb, Send) and verb.key == name for verb in verbs):
            sizes.append(len(verbs))
            raise TypeError("nobody foresaw this")
        return ""

    gate.fail(fault)
    return sizes


async def failing_send(app: App, run: str) -> None:
    with pytest.raises(StoreError, match=r"the write failed unexpectedly: TypeError.*nobody foresaw this"):
        await app.send(run, "poison")


async def test_it_fails_alone_and_what_shares_its_batch_is_committed(open_app: OpenApp, gate: Gate, ears: Ears) -> None:
    async with open_app(on_event=ears) as app:
        await app.start(waiting(), id="one")
        await reaches(await app.get("one"), "waiting")
        sizes = fails_on(gate, "poison")
        gate.hold(Send)
        sends = [asyncio.ensure_future(app.send("one", f"m{n}")) for n in range(20)]
        culprits = [asyncio.ensure_future(failing_send(app, "one")) for _ in range(2)]
        runs = [asyncio.ensure_future(app.start(doubled(n))) for n in range(20)]
        await eventually(lambda: gate.waiting == 1)
        gate.release()
        await asyncio.gather(*sends, *culprits)
        assert [await (await run).result() for run in runs] == [2 * n for n in range(20)]
        assert {m.name for m in await (await app.get("one")).messages()} == {f"m{n}" for n in range(20)}
        assert len(ears.heard("store.failed")) == 2
        assert len(sizes) < 20, "a culprit is found by halving"


async def test_runs_beside_it_go_on_and_no_once_step_gets_in_doubt(open_app: OpenApp, gate: Gate, ears: Ears) -> None:
    async with open_app(on_event=ears) as app:
        await app.start(waiting(), id="one")
        fails_on(gate, "poison")
        runs = [await app.start(paying(5)) for _ in range(10)]
        for _ in range(5):
            await failing_send(app, "one")
        assert [await run.result() for run in runs] == [[0, 1, 2, 3, 4]] * 10
        assert ears.heard("run.lost") == []
    assert len(executed) == 50


async def test_what_is_written_in_one_order_is_committed_in_it(open_app: OpenApp, gate: Gate) -> None:
    async with open_app() as app:
        await app.start(waiting(), id="one")
        await reaches(await app.get("one"), "waiting")
        fails_on(gate, "poison")
        gate.hold(Send)
        names = ["a", "poison", "b", "c", "poison", "d", "e"]
        sends = [
            asyncio.ensure_future(failing_send(app, "one") if name == "poison" else app.send("one", name))
            for name in names
        ]
        await eventually(lambda: gate.waiting == 1)
        gate.release()
        await asyncio.gather(*sends)
        sent = [verb.key for verb in gate.committed if isinstance(verb, Send)]
        assert sent == ["a", "b", "c", "d", "e"]


async def test_a_beat_that_fails_takes_no_write_with_it(open_app: OpenApp, gate: Gate, ears: Ears) -> None:
    beats: list[Verb] = []

    def fault(verbs: Sequence[Verb]) -> str:
        if any(isinstance(verb, Beat) for verb in verbs) and len(beats) < 20:
            beats.extend(verb for verb in verbs if isinstance(verb, Beat))
            raise TypeError("nobody foresaw this")
        return ""

    async with open_app(on_event=ears, lease=30) as app:
        gate.fail(fault)
        app.writer.lease.seconds = 1e6  # so that it is time to beat with whatever comes
        assert await (await app.start(doubled(2))).result() == 4
        await eventually(lambda: len(beats) >= 20)
        assert await (await app.start(doubled(3))).result() == 6
        assert ears.heard("run.lost") == []
    assert any(isinstance(verb, Write) for verb in gate.committed)
