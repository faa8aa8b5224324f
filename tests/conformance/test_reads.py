"""What is asked is answered, literally, whatever the question looks like."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from outlast.core.records import Kind, RunRow
from outlast.core.transitions import Reason, Status
from outlast.stores.memory import MemoryStore
from outlast.stores.memory.store import _fits
from outlast.stores.protocol import RunFilter, Store
from tests.conformance.conftest import StoreFactory
from tests.conformance.world import World, finish, message, park, record, release, stick, take_over, write


def ids(world: World, **wanted: Any) -> list[str]:
    """Return the ids that a filter finds."""
    return [run.id for run in world.store.runs(RunFilter(**wanted))]


def test_runs_are_listed_newest_first(world: World) -> None:
    for name in ("b", "a", "c"):
        world.start(name)
    assert ids(world) == ["c", "a", "b"]
    assert world.store.runs(RunFilter())[0] == world.store.run("c")


def test_a_listing_is_paged_without_losing_or_repeating_a_run(world: World) -> None:
    for n in range(25):
        world.start(f"r{n:02}", workflow=f"flow{n % 2}")
    pages, before = [], None
    while page := world.store.runs(RunFilter(workflow="flow1"), limit=5, before=before):
        pages.append([run.id for run in page])
        before = page[-1].pk
        world.start(f"new{before}")  # what is started meanwhile is on no later page
    assert [len(page) for page in pages] == [5, 5, 2]
    assert [name for page in pages for name in page] == [f"r{n:02}" for n in range(23, 0, -2)]
    assert world.store.runs(RunFilter(), limit=0) == []


def test_each_filter_means_what_it_says(world: World) -> None:
    world.running("owned", version="v1")
    world.clock.advance(10)
    parent = world.start("parent", version="v2", workflow="other")
    world.start("child", parent=parent.pk, parent_key="k")
    world.clock.advance(10)
    stuck = world.running("stuck")
    world.do(stick(stuck, Reason.IN_DOUBT))
    t = world.clock.wall()
    assert ids(world, statuses=(Status.RUNNING, Status.STUCK)) == ["stuck", "owned"]
    assert ids(world, statuses=()) == []
    assert ids(world, reason=Reason.IN_DOUBT) == ["stuck"]
    assert ids(world, reason=Reason.DIVERGED) == []
    assert ids(world, workflow="other") == ["parent"]
    assert ids(world, version="v1") == ["owned"]
    assert ids(world, version="") == ["stuck", "child"]
    assert ids(world, owner="w1") == ["owned"]
    assert ids(world, parent=parent.pk) == ["child"]
    assert ids(world, created_after=t - 10) == ["stuck", "child", "parent"]
    assert ids(world, created_before=t - 10) == ["owned"]
    assert ids(world, created_after=t - 10, created_before=t) == ["child", "parent"]
    assert ids(world, statuses=tuple(Status), workflow="flow", id_prefix="o") == ["owned"]


def test_a_filter_on_due_finds_what_is_due_and_nothing_that_has_no_time(world: World) -> None:
    now = world.clock.wall()
    world.do(park(world.running("on a child")))
    world.do(park(world.running("asleep"), due=now + 60))
    world.start("waits")
    world.put_in(Status.SUCCEEDED, "over")
    world.running("busy")
    assert ids(world, due_before=now) == []
    world.clock.advance(0.5)
    assert ids(world, due_before=now + 0.5) == ["waits"]
    assert ids(world, due_before=now + 60) == ["waits"]
    assert ids(world, due_before=now + 61) == ["waits", "asleep"]
    assert ids(world, due_before=now + 61, statuses=(Status.WAITING,)) == ["asleep"]


PREFIXED = ["a", "a%b", "a_b", "ab", "aB", "a\\b", "", "a'b", "a\U0010ffff", "a\U0010ffffz", "\ud7ffz", "\ue000"]


@pytest.mark.parametrize("prefix", ["a", "a%", "a_", "A", "", "a\\", "a'", "a\U0010ffff", "\ud7ff", "zz"])
def test_a_prefix_matches_literally(world: World, prefix: str) -> None:
    names = [name for name in PREFIXED if name]
    for name in names:
        world.start(name)
    assert sorted(ids(world, id_prefix=prefix)) == sorted(name for name in names if name.startswith(prefix))


HOSTILE = [
    "') OR 1=1 --",
    '"; DROP TABLE runs; --',
    "x' UNION SELECT 1 --",
    "%",
    "_",
    "?",
    ":a",
    "$.a",
    "\\",
    "\0",
    "é'",
]
texts = st.sampled_from(HOSTILE) | st.text(max_size=8)
numbers = st.integers(-(2**63), 2**63 - 1)
times = st.floats(allow_nan=False)


@pytest.fixture(scope="module")
def crowd() -> list[dict[str, Any]]:
    """Return the fields of runs with odd names."""
    return [
        {"id": f"{name}{n}", "workflow": name, "version": name} for n, name in enumerate(HOSTILE) if "\0" not in name
    ]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    filter=st.builds(
        RunFilter,
        statuses=st.none() | st.lists(st.sampled_from(Status), max_size=3).map(tuple),
        reason=st.none() | st.sampled_from(Reason),
        workflow=st.none() | texts,
        version=st.none() | texts,
        id_prefix=st.none() | texts,
        owner=st.none() | texts,
        parent=st.none() | numbers,
        created_after=st.none() | times,
        created_before=st.none() | times,
        due_before=st.none() | times,
    ),
    limit=st.integers(0, 20),
    before=st.none() | numbers,
)
@example(RunFilter(workflow="') OR 1=1 --"), 10, None)
@example(RunFilter(id_prefix="\0"), 10, None)
def test_no_filter_does_more_than_filter(
    store_factory: StoreFactory,
    world: World,
    crowd: list[dict[str, Any]],
    filter: RunFilter,
    limit: int,
    before: int | None,
) -> None:
    for fields in crowd:
        if world.store.run(fields["id"]) is None:
            world.start(**fields)
    everything = world.store.runs(RunFilter(), limit=1000)
    assert len(everything) == len(crowd)
    expected = [run for run in everything if (before is None or run.pk < before) and _fits(run, filter)]
    assert world.store.runs(filter, limit=limit, before=before) == expected[:limit]


@pytest.mark.parametrize("text", ["\ud800", "a\udfff"])
def test_what_no_store_can_keep_is_found_in_none(world: World, text: str) -> None:
    world.running("a")
    store = world.store
    assert store.run(text) is None
    for name in ("id_prefix", "workflow", "version", "owner"):
        assert store.runs(RunFilter(**{name: text})) == []
    assert store.owned(text) == []
    assert store.inbox(text) == []
    assert store.next_due((text, "flow")) is None


def test_a_limit_may_be_as_large_as_one_likes(world: World) -> None:
    run = world.running("a")
    world.do(write(run, record(1)))
    assert [found.id for found in world.store.runs(RunFilter(), limit=2**70)] == ["a"]
    assert [found.seq for found in world.store.records(run.pk, limit=2**70)] == [1]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_does_more_than_name_something(world: World, text: str) -> None:
    world.running("run")
    store, before = world.store, world.state()
    assert store.run(text) is None
    assert store.owned(text) == []
    assert store.inbox(text) == []
    assert store.next_due((text,)) is None
    world.do(message(text))
    assert world.state() == before


def test_ended_gives_those_that_are_over_or_stuck(world: World) -> None:
    runs = {name: world.running(name) for name in ("a", "b", "c", "d", "e", "f")}
    world.do(finish(runs["a"]))
    world.do(finish(runs["b"], Status.FAILED))
    world.do(finish(runs["c"], Status.CANCELLED))
    world.do(stick(runs["d"]))
    world.do(park(runs["e"]))
    pks = [run.pk for run in runs.values()]
    assert [run.id for run in world.store.ended([*pks, *pks, 999])] == ["a", "b", "c", "d"]
    assert world.store.ended([pks[1]]) == [world.get(pks[1])]
    assert world.store.ended([]) == []
    assert world.store.ended(range(-5_000, 0)) == []


def test_owned_tells_of_each_run_and_claim(world: World) -> None:
    first, second = world.running("a"), world.running("b")
    world.do(release(first))
    world.do(release(second))
    world.claim(limit=1)
    assert world.store.owned("w1") == [(first.pk, 2)]
    world.claim(limit=1)
    assert world.store.owned("w1") == [(first.pk, 2), (second.pk, 2)]


def test_owners_counts_the_runs_of_each_worker(world: World) -> None:
    assert world.store.owners() == {}
    world.worker("idle")
    first = world.running("a", "w1")
    for name in ("b", "c"):
        world.running(name, "w2")
    assert world.store.owners() == {"w1": 1, "w2": 2}
    world.do(finish(first))
    world.start("nobody's")
    assert world.store.owners() == {"w2": 2}
    world.do(take_over("w2", "idle"))
    assert world.store.owners() == {}
    world.claim("idle", limit=2)
    assert world.store.owners() == {"idle": 2}


def test_a_run_that_is_not_there_is_none(world: World) -> None:
    assert world.store.run("nobody") is None
    assert world.store.run_by_pk(12345) is None


def test_change_differs_after_others_have_changed_what_one_waits_for(world: World, store_factory: StoreFactory) -> None:
    other = World(store_factory(world.clock), world.clock)

    def differs(since: int) -> bool:
        end = time.monotonic() + 5
        while world.store.change() == since and time.monotonic() < end:
            time.sleep(0.002)
        return world.store.change() != since

    seen = world.store.change()
    other.start("theirs")
    assert differs(seen)
    seen = world.store.change()
    run = other.running("run")
    assert differs(seen)
    world.start("mine")
    seen = world.store.change()
    other.do(finish(run))
    assert differs(seen)
    seen = world.store.change()
    other.start("theirs, just before mine")
    world.start("mine, just after theirs")
    assert differs(seen)


def test_change_stays_while_nobody_changes_anything(world: World, store_factory: StoreFactory) -> None:
    if world.store.info().kind == "postgresql":
        pytest.skip("what other tests commit on the same server counts, too")
    other = World(store_factory(world.clock), world.clock)
    world.start()
    seen = world.store.change()
    other.store.runs(RunFilter())
    world.store.load([1])
    assert world.store.change() == seen


def test_info_counts_runs_by_status(world: World) -> None:
    world.start("a")
    world.start("b")
    world.put_in(Status.SUCCEEDED, "c")
    info = world.store.info()
    assert info.counts == {"pending": 2, "succeeded": 1}
    assert info.kind
    assert info.location
    assert info.engine


def test_the_clocks_are_those_of_the_store(world: World) -> None:
    assert (world.store.now(), world.store.lease_now()) == (world.clock.wall(), world.clock.boot())


def test_a_row_that_was_read_is_a_copy(world: World) -> None:
    run = world.start()
    run.status, run.detail = Status.FAILED, "changed by the reader"
    assert world.get(run.pk).status is Status.PENDING
    read = world.get(run.pk)
    read.status = Status.FAILED
    assert world.get(run.pk).status is Status.PENDING


def test_close_may_be_called_twice(store_factory: StoreFactory, world: World) -> None:
    store: Store = store_factory(world.clock)
    store.close()
    store.close()
    assert isinstance(store, MemoryStore) or isinstance(world.start(), RunRow)


def test_a_message_kind_comes_back_as_a_kind(world: World) -> None:
    world.running()
    world.do(message())
    assert type(world.store.inbox("w1")[0].kind) is Kind
