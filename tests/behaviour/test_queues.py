"""Runs on a queue wait for their turn."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

import outlast
from outlast import App, RunConflict, WrongUse


class Gate:
    """Counts who is inside, and lets out on demand."""

    def __init__(self) -> None:
        self.inside = 0
        self.most = 0
        self.entered: list[str] = []
        self.changed = asyncio.Condition()
        self.open = asyncio.Event()

    async def enter(self, name: str) -> None:
        async with self.changed:
            self.inside += 1
            self.most = max(self.most, self.inside)
            self.entered.append(name)
            self.changed.notify_all()
        await self.open.wait()
        async with self.changed:
            self.inside -= 1
            self.changed.notify_all()

    async def entered_by(self, count: int) -> None:
        async with self.changed:
            await self.changed.wait_for(lambda: len(self.entered) >= count)


gate = Gate()  # each test has a new one


@outlast.step(effect="pure")
async def visit(name: str) -> str:
    await gate.enter(name)
    return name


two = outlast.queue("two", concurrency=2)
tenants = outlast.queue("tenants", per_key=(lambda tenant, name="": tenant, 1))
slow = outlast.queue("slow", rate=(2, 0.3))
one = outlast.queue("one", concurrency=1)


@outlast.workflow(queue=two)
async def guarded(name: str) -> str:
    return await visit(name)


@outlast.workflow(queue=tenants)
async def of_tenant(tenant: str, name: str = "") -> str:
    return await visit(f"{tenant}{name}")


@outlast.workflow(queue=slow)
async def rated(n: int) -> float:
    return outlast.now().timestamp()


@outlast.workflow
async def plain(name: str) -> str:
    return await visit(name)


@outlast.workflow
async def family(names: list[str]) -> list[str]:
    return list(await asyncio.gather(*(plain.options(queue=two)(name) for name in names)))


@outlast.workflow(queue=one)
async def sleeper(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "slept"


def run_with(url: str, test: object, **settings: object) -> None:
    async def main() -> None:
        global gate
        gate = Gate()
        async with App(url, **settings) as app:  # type: ignore[arg-type]
            async with asyncio.timeout(30):
                await test(app)  # type: ignore[operator]

    asyncio.run(main())


def test_no_more_runs_at_once_than_the_queue_allows(url: str) -> None:
    async def test(app: App) -> None:
        runs = [await app.start(guarded(f"r{n}")) for n in range(7)]
        await gate.entered_by(2)
        (info,) = [q for q in await app.queues() if q.name == "two"]
        assert (info.running, info.waiting, info.concurrency) == (2, 5, 2)
        gate.open.set()
        assert [await run.result() for run in runs] == [f"r{n}" for n in range(7)]
        assert gate.most <= 2

    run_with(url, test)


def test_children_are_put_on_a_queue_and_a_waiting_parent_has_no_place(url: str) -> None:
    async def test(app: App) -> None:
        gate.open.set()
        run = await app.start(family([f"c{n}" for n in range(9)]))
        assert await run.result() == [f"c{n}" for n in range(9)]
        assert gate.most <= 2

    run_with(url, test)


def test_each_key_has_its_own_places(url: str) -> None:
    async def test(app: App) -> None:
        runs = [await app.start(of_tenant("a", f"{n}")) for n in range(3)]
        runs += [await app.start(of_tenant(tenant="b"))]
        await gate.entered_by(2)
        assert set(gate.entered) == {"a0", "b"}
        gate.open.set()
        assert [await run.result() for run in runs] == ["a0", "a1", "a2", "b"]

    run_with(url, test)


def test_a_rate_spaces_the_starts(url: str) -> None:
    async def test(app: App) -> None:
        runs = [await app.start(rated(n)) for n in range(6)]
        times = sorted([await run.result() for run in runs])
        assert all(later - earlier >= 0.3 for earlier, later in zip(times, times[2:], strict=False))
        assert times[-1] - times[0] < 5

    run_with(url, test)


def test_a_higher_priority_goes_first(url: str) -> None:
    async def test(app: App) -> None:
        first = await app.start(plain.options(queue=one)("first"))
        await gate.entered_by(1)
        low = await app.start(plain.options(queue=one, priority=-1)("low"))
        high = await app.start(plain.options(queue=one, priority=10)("high"))
        gate.open.set()
        for run in (first, low, high):
            await run.result()
        assert gate.entered == ["first", "high", "low"]

    run_with(url, test)


def test_a_run_that_rests_gives_its_place_away(url: str) -> None:
    async def test(app: App) -> None:
        gate.open.set()
        asleep = await app.start(sleeper(0.6))
        other = await app.start(plain.options(queue=one)("other"))
        assert await other.result() == "other"
        assert await asleep.status() in ("waiting", "running", "succeeded")
        assert await asleep.result() == "slept"

    run_with(url, test, park_after=0.0)


def test_a_delayed_run_begins_at_its_time(url: str) -> None:
    async def test(app: App) -> None:
        gate.open.set()
        before = app.store.now()
        seconds = await app.start(plain.options(delay=0.3)("seconds"))
        moment = await app.start(plain.options(delay=datetime.now(UTC) + timedelta(seconds=0.3), queue=two)("moment"))
        for run in (seconds, moment):
            await run.result()
            row = app.store.run(run.id)
            assert row is not None
            assert row.started is not None
            assert row.started >= before + 0.25

    run_with(url, test)


def test_a_delayed_run_is_nobodys_until_its_time_and_begins_once_however_many_wait_for_it(url: str) -> None:
    async def test(app: App) -> None:
        gate.open.set()
        runs = [await app.start(plain.options(delay=0.4, queue=queue)(f"{n}")) for n, queue in enumerate((None, two))]
        never = await app.start(plain.options(delay=0.4)("cancelled"))
        async with App(url), App(url):
            rows = [app.store.run(run.id) for run in (*runs, never)]
            assert [(row.status, row.owner, row.claim) for row in rows if row] == [("pending", None, 0)] * 3
            await never.cancel()
        async with App(url), App(url):
            assert [await run.result() for run in runs] == ["0", "1"]
            assert sorted(gate.entered) == ["0", "1"]
            assert [(await run.info()).claims for run in runs] == [1, 1]

    run_with(url, test)


def test_who_asks_for_a_key_whose_run_ended_in_any_way_gets_a_new_run(url: str) -> None:
    async def test(app: App) -> None:
        def held(**terms: float) -> outlast.Call[str]:
            return plain.options(dedup="k", **terms)("x")  # type: ignore[misc]

        seen = set()
        for end in ("cancelled", "by force", "too late", "never begun"):
            terms = {"too late": {"timeout": 0.1}, "never begun": {"timeout": 0.1, "delay": 3600}}.get(end, {})
            run = await app.start(held(**terms))
            seen.add(run.id)
            assert (await app.start(held(**terms))).id == run.id
            if end in ("cancelled", "by force"):
                await app.cancel(run.id, force=end == "by force")
            with pytest.raises((outlast.RunCancelled, outlast.RunTimeout)):
                await run.result()
        assert len(seen) == 4

    run_with(url, test)


def test_a_paused_queue_begins_nothing(url: str) -> None:
    async def test(app: App) -> None:
        gate.open.set()
        await (await app.start(guarded("known"))).result()
        await app.pause_queue("two", by="ada")
        run = await app.start(guarded("held"))
        await (await app.start(plain("beside"))).result()
        assert await run.status() == "pending"
        (info,) = [q for q in await app.queues() if q.name == "two"]
        assert info.paused is not None
        assert (info.paused_by, info.waiting) == ("ada", 1)
        await app.resume_queue("two")
        assert await run.result() == "held"
        with pytest.raises(WrongUse, match="no queue 'nowhere'"):
            await app.pause_queue("nowhere")

    run_with(url, test)


# -- dedup and debounce ------------------------------------------------------------------


def test_the_same_call_joins_the_run_that_holds_its_dedup_key(url: str) -> None:
    async def test(app: App) -> None:
        order = plain.options(dedup="order-5")
        runs = await asyncio.gather(*(app.start(order("x")) for _ in range(5)))
        assert len({run.id for run in runs}) == 1
        await gate.entered_by(1)
        held = f"dedup key 'order-5' of workflow 'plain' is held by run '{runs[0].id}'"
        with pytest.raises(RunConflict, match=rf"{held}.*use another key; look at that run: outlast show"):
            await app.start(order("y"))
        gate.open.set()
        assert await runs[0].result() == "x"
        assert (await app.start(order("y"))).id != runs[0].id
        assert gate.entered.count("x") == 1

    run_with(url, test)


def test_a_dedup_key_that_nobody_can_run_is_freed_by_a_cancel(url: str) -> None:
    async def test(app: App) -> None:
        held = await app.start(plain.options(dedup="k", delay=3600)("never"))
        with pytest.raises(RunConflict, match=held.id):
            await app.start(plain.options(dedup="k")("now"))
        await held.cancel()
        gate.open.set()
        assert await (await app.start(plain.options(dedup="k")("now"))).result() == "now"

    run_with(url, test)


def test_a_later_start_replaces_the_arguments_and_puts_the_run_off(url: str) -> None:
    async def test(app: App) -> None:
        gate.open.set()
        quiet = plain.options(debounce="doc-1", delay=0.5, max_wait=60)
        first = await app.start(quiet("draft 1"))
        row = app.store.run(first.id)
        await asyncio.sleep(0.01)
        second = await app.start(quiet("draft 2"))
        again = app.store.run(first.id)
        assert first.id == second.id
        assert row is not None
        assert again is not None
        assert (again.due or 0) > (row.due or 0)
        assert await second.result() == "draft 2"
        assert gate.entered == ["draft 2"]
        assert (await app.start(quiet("draft 3"))).id != first.id

    run_with(url, test)


def test_a_later_start_gives_the_run_the_deadline_of_its_own_terms(url: str) -> None:
    async def test(app: App) -> None:
        first = await app.start(plain.options(debounce="doc-1", delay=50, timeout=60)("a"))
        before = (await first.info()).deadline or 0
        await app.start(plain.options(debounce="doc-1", delay=100, timeout=120)("b"))
        info = await first.info()
        assert (info.deadline or 0) - before == pytest.approx(60, abs=5)
        assert (info.due or 0) < (info.deadline or 0)
        await app.start(plain.options(debounce="doc-1", delay=100)("c"))
        assert (await first.info()).deadline is None

    run_with(url, test, worker=False)


def test_a_run_is_not_put_off_for_longer_than_max_wait(url: str) -> None:
    async def test(app: App) -> None:
        quiet = plain.options(debounce="doc-1", delay=3600, max_wait=7200)
        first = await app.start(quiet("a"))
        await app.start(plain.options(debounce="doc-1", delay=9000, max_wait=7200)("b"))
        row = app.store.run(first.id)
        assert row is not None
        assert row.due == row.created + 7200

    run_with(url, test, worker=False)


# -- what makes no sense -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: outlast.queue(""), "name"),
        (lambda: outlast.queue("q", concurrency=0), "concurrency=0"),
        (lambda: outlast.queue("q", per_worker=1.5), "per_worker=1.5"),  # type: ignore[arg-type]
        (lambda: outlast.queue("q", per_key=(len, 0)), "per_key=0"),  # type: ignore[arg-type]
        (lambda: outlast.queue("q", rate=(0, 60)), "rate"),
        (lambda: outlast.queue("q", rate=(5, 0)), "rate"),
        (lambda: plain.options(queue="two"), "not its name"),  # type: ignore[arg-type]
        (lambda: plain.options(priority=3), "on a queue"),
        (lambda: plain.options(delay=-1), "delay=-1"),
        (lambda: plain.options(delay=datetime(2030, 1, 1)), "time zone"),  # noqa: DTZ001
        (lambda: plain.options(debounce="k"), "needs delay="),
        (lambda: plain.options(dedup="k", debounce="k", delay=1), "choose one"),
        (lambda: plain.options(max_wait=5), "belongs to debounce="),
        (lambda: plain.options(id="x", dedup="k"), "choose one"),
        (lambda: plain.options(colour="red"), "no such option: colour; there are id, durability, queue, "),  # type: ignore[call-arg]
    ],
)
def test_what_makes_no_sense_is_refused(make: object, says: str) -> None:
    with pytest.raises(WrongUse, match=says):
        make()  # type: ignore[operator]


def test_a_key_function_that_gives_no_text_is_told(url: str) -> None:
    odd = outlast.queue("odd", per_key=(len, 1))  # type: ignore[arg-type]

    async def test(app: App) -> None:
        with pytest.raises(WrongUse, match="queue 'odd'"):
            await app.start(plain.options(queue=odd)("x"))

    run_with(url, test, worker=False)
