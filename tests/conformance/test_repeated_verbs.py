"""A verb that is sent again, since its answer was lost, gives the same answer and changes nothing."""

from __future__ import annotations

from outlast.core.records import Fork, Kind, WorkerRow
from outlast.core.transitions import Reason, Status
from outlast.stores.verbs import (
    Beat,
    Beaten,
    Cancel,
    Claim,
    Claimed,
    Done,
    Fenced,
    ForkRun,
    Leave,
    Prune,
    Register,
    Resolve,
    Resume,
    Started,
    StartRun,
    TakenOver,
)
from tests.conformance.conftest import StoreFactory
from tests.conformance.world import (
    LEASE_S,
    World,
    finish,
    message,
    park,
    record,
    release,
    run_row,
    stick,
    take_over,
    twice,
    write,
)


def test_register(world: World) -> None:
    (answer,) = twice(world, Register(worker=WorkerRow(id="w1", pid=7), lease_s=LEASE_S))
    assert answer == Beaten(world.clock.boot() + LEASE_S)


def test_beat(world: World) -> None:
    world.worker()
    world.clock.advance(10)
    assert twice(world, Beat(worker="w1", lease_s=LEASE_S)) == [Beaten(world.clock.boot() + LEASE_S)]


def test_leave(world: World) -> None:
    run = world.running()
    assert twice(world, Leave(worker="w1")) == [TakenOver((run.pk,))]


def test_takeover_of_a_process_that_is_gone(world: World) -> None:
    run = world.running()
    world.worker("w2")
    assert twice(world, take_over()) == [TakenOver((run.pk,))]


def test_takeover_of_an_expired_lease_and_then_of_the_process(world: World) -> None:
    run = world.running()
    world.clock.advance(LEASE_S)
    world.worker("w2")
    assert twice(world, take_over(gone=False)) == [TakenOver((run.pk,))]
    assert twice(world, take_over(gone=True)) == [TakenOver(())]


def test_takeover_that_makes_a_run_stuck(world: World) -> None:
    run = world.running()
    world.worker("w2")
    assert twice(world, take_over(max_crashes=1)) == [TakenOver((), (run.pk,))]


def test_claim_under_a_key(world: World) -> None:
    world.worker()
    runs = [world.start(f"r{n}") for n in range(5)]
    (answer,) = twice(world, Claim(worker="w1", workflows=("flow",), limit=3, key="k1"))
    assert isinstance(answer, Claimed)
    assert [run.pk for run in answer.runs] == [run.pk for run in runs[:3]]


def test_write(world: World) -> None:
    run = world.running()
    assert twice(world, write(run, record(1), record(2))) == [Done()]


def test_write_that_delivers_a_message(world: World) -> None:
    run = world.running()
    world.do(message())
    (row,) = world.store.inbox("w1")
    assert twice(world, write(run, record(1, Kind.MESSAGE), consumes=(row.id,))) == [Done()]


def test_write_and_park(world: World) -> None:
    run = world.running()
    assert twice(world, write(run, record(1)), park(run, due=world.clock.wall() + 5)) == [Done(), Done()]


def test_write_and_release(world: World) -> None:
    run = world.running()
    assert twice(world, write(run, record(1)), release(run)) == [Done(), Done()]


def test_write_and_stick(world: World) -> None:
    run = world.running()
    assert twice(world, write(run, record(1)), stick(run, Reason.UNDECODABLE)) == [Done(), Done()]


def test_write_and_finish(world: World) -> None:
    run = world.running()
    assert twice(world, write(run, record(1)), finish(run, last_seq=1)) == [Done(), Done()]


def test_finish_of_a_child(world: World) -> None:
    parent = world.running("parent")
    child = world.running("child", parent=parent.pk, parent_key="main/child#1")
    assert twice(world, finish(child)) == [Done((parent.pk,))]


def test_start_pending(world: World) -> None:
    (answer,) = twice(world, StartRun(run=run_row("x")))
    assert isinstance(answer, Started)
    assert answer.created


def test_start_claimed(world: World) -> None:
    world.worker()
    (answer,) = twice(world, StartRun(run=run_row("x"), claim_by="w1"))
    assert isinstance(answer, Started)
    assert (answer.run.status, answer.run.claim) == (Status.RUNNING, 1)


def test_start_of_a_child_before_its_parent_parks(world: World) -> None:
    parent = world.running("parent")
    child = run_row("child", parent=parent.pk, parent_key="main/child#1")
    start = StartRun(run=child, parent_worker="w1", parent_claim=parent.claim)
    started, parked = twice(world, start, park(parent))
    assert isinstance(started, Started)
    assert parked == Done()


def test_start_of_a_child_that_was_there_before_its_parent_parks(world: World) -> None:
    known = world.start("child")
    parent = world.running("parent")
    child = run_row("child", parent=parent.pk, parent_key="main/child#1")
    start = StartRun(run=child, parent_worker="w1", parent_claim=parent.claim)
    assert twice(world, start, park(parent)) == [Started(known, created=False), Done()]


def test_send(world: World) -> None:
    run = world.put_in(Status.WAITING)
    assert twice(world, message()) == [Done((run.pk,))]


def test_cancel_in_every_status_that_takes_it(world: World) -> None:
    for status in (Status.PENDING, Status.RUNNING, Status.WAITING, Status.STUCK):
        world.put_in(status, id=status)
        (answer,) = twice(world, Cancel(id=status))
        assert isinstance(answer, Done)


def test_resolve(world: World) -> None:
    run = world.running()
    world.do(write(run, record(1, Kind.INTENT, key="main/charge#1", attempt=1)))
    world.do(stick(run, Reason.IN_DOUBT))
    decision = Resolve(id="run", key="main/charge#1", attempt=1, decision="happened", value=b"1", by="ann")
    assert twice(world, decision) == [Done((run.pk,))]


def test_resume(world: World) -> None:
    run = world.running()
    world.do(write(run, record(1), record(2, ok=False)))
    world.do(finish(run, Status.FAILED, last_seq=2))
    assert twice(world, Resume(id="run", status=Status.FAILED, last_seq=2, drop=(2,))) == [Done((run.pk,))]


def test_fork(world: World) -> None:
    run = world.running()
    world.do(write(run, record(1), record(2)))
    (answer,) = twice(world, ForkRun(source=run.pk, keep=(1,), run=run_row("copy", forks=(Fork(1, run.incarnation),))))
    assert isinstance(answer, Started)
    assert answer.created


def test_prune_deletes_the_same_once(world: World) -> None:
    run = world.put_in(Status.SUCCEEDED)
    world.clock.advance(100)
    prune = Prune(before=world.clock.wall())
    assert world.do(prune) == Claimed((run,))
    assert world.do(prune) == Claimed(())


def test_a_write_is_known_again_after_a_takeover_by_another_process(world: World, store_factory: StoreFactory) -> None:
    run = world.running()
    world.do(write(run, record(1)))
    other = World(store_factory(world.clock), world.clock)
    other.worker("w2")
    assert other.do(take_over("w1", "w2")) == TakenOver((run.pk,))
    assert world.do(write(run, record(1))) == Done()
    assert isinstance(world.do(write(run, record(2))), Fenced)
