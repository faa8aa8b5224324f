"""Workers come, prove that they live, leave, and are taken over when they do not."""

from __future__ import annotations

import threading

from outlast.core.records import Kind, WorkerRow, WorkerState
from outlast.core.transitions import Reason, Status
from outlast.stores.verbs import Beat, Beaten, Claimed, Done, Fenced, Leave, Prune, Refused, Register, TakenOver
from tests.conformance.conftest import StoreFactory
from tests.conformance.world import LEASE_S, World, finish, park, record, take_over, write


def test_a_worker_is_kept_with_what_it_says_of_itself(world: World) -> None:
    said = WorkerRow(id="w1", pid=7, host="here", lock_path="/run/w1", lock_inode=99, version="v1", python="3.13.1")
    world.do(Register(worker=said, lease_s=LEASE_S))
    said.boot = world.clock.boot_id()
    said.started = said.beat = world.clock.wall()
    said.lease_until = world.clock.boot() + LEASE_S
    assert world.store.workers() == [said]


def test_a_worker_can_say_anew_what_it_serves(world: World) -> None:
    def said(*names: str) -> WorkerRow:
        return WorkerRow(id="w1", pid=7, serves=names)

    world.worker("w0")
    world.clock.advance(5)
    world.do(Register(worker=said("flow", "ström"), lease_s=LEASE_S))
    first, other = world.store.workers()
    assert (first.serves, other.serves) == (("flow", "ström"), None)
    world.clock.advance(5)
    assert world.do(Register(worker=said(), lease_s=LEASE_S)) == Beaten(world.clock.boot() + LEASE_S)
    again, _ = world.store.workers()
    assert (again.serves, again.started, again.beat) == ((), first.started, world.clock.wall())


def test_a_beat_moves_the_lease_in_boot_time_and_tells_wall_time(world: World) -> None:
    world.worker()
    world.clock.advance(10)
    world.clock.wall_s -= 5_000
    assert world.do(Beat(worker="w1", lease_s=LEASE_S)) == Beaten(world.clock.boot() + LEASE_S)
    (row,) = world.store.workers()
    assert (row.beat, row.lease_until) == (world.clock.wall(), world.clock.boot() + LEASE_S)


def test_an_unknown_worker_cannot_beat(world: World) -> None:
    answer = world.do(Beat(worker="w1", lease_s=LEASE_S))
    assert isinstance(answer, Fenced)
    assert answer.worker_lost


def test_an_id_is_never_used_again(world: World) -> None:
    world.worker("w1")
    world.do(Leave(worker="w1"))
    answer = world.do(Register(worker=WorkerRow(id="w1", pid=2), lease_s=LEASE_S))
    assert isinstance(answer, Fenced)
    assert answer.worker_lost
    (row,) = world.store.workers()
    assert row.state is WorkerState.GONE


def test_workers_are_listed_newest_first(world: World) -> None:
    for name in ("w1", "w2", "w3"):
        world.worker(name)
        world.clock.advance(1)
    assert [row.id for row in world.store.workers()] == ["w3", "w2", "w1"]


# -- leaving -------------------------------------------------------------------


def test_who_leaves_hands_its_runs_back_without_a_mark_of_a_crash(world: World) -> None:
    runs = [world.running(f"r{n}") for n in range(3)]
    parked = world.running("parked")
    world.do(park(parked))
    assert world.do(Leave(worker="w1")) == TakenOver(tuple(run.pk for run in runs))
    for run in runs:
        now = world.get(run.pk)
        assert (now.status, now.owner, now.due, now.crashes) == (Status.PENDING, None, world.clock.wall(), 0)
    assert world.get(parked.pk).status is Status.WAITING
    (row,) = world.store.workers()
    assert (row.state, row.left) == (WorkerState.GONE, world.clock.wall())


# -- takeover ------------------------------------------------------------------


def test_a_takeover_puts_the_runs_of_the_dead_back_in_the_queue(world: World) -> None:
    runs = [world.running(f"r{n}") for n in range(60)]
    world.worker("w2")
    mine = world.running("mine", "w2")
    assert world.do(take_over("w1")) == TakenOver(tuple(run.pk for run in runs))
    assert {(row.id, row.state) for row in world.store.workers()} == {
        ("w1", WorkerState.GONE),
        ("w2", WorkerState.ALIVE),
    }
    assert len(world.claim("w2", limit=100)) == 60
    assert all(world.get(run.pk).crashes == 1 for run in runs)
    assert world.get(mine.pk).crashes == 0


def test_a_lease_that_holds_is_not_taken_unless_the_process_is_gone(world: World) -> None:
    run = world.running()
    world.worker("w2")
    world.clock.advance(LEASE_S - 0.001)
    world.do(Beat(worker="w2", lease_s=LEASE_S))
    assert isinstance(world.do(take_over("w1", gone=False)), Refused)
    assert world.get(run.pk).owner == "w1"
    assert world.do(take_over("w1", gone=True)) == TakenOver((run.pk,))


def test_a_session_that_did_not_end_is_no_reason_to_take_over(world: World) -> None:
    run = world.running()
    world.worker("w2")
    assert isinstance(world.do(take_over("w1", gone=False, dropped=True)), Refused)
    assert world.get(run.pk).owner == "w1"


def test_a_lease_that_ran_out_is_taken_and_its_worker_is_only_called_expired(world: World) -> None:
    run = world.running()
    world.clock.advance(LEASE_S)
    world.worker("w2")
    assert world.do(take_over("w1", gone=False)) == TakenOver((run.pk,))
    states = {row.id: row.state for row in world.store.workers()}
    assert states["w1"] is WorkerState.EXPIRED
    assert world.do(take_over("w1", gone=True)) == TakenOver(())
    states = {row.id: row.state for row in world.store.workers()}
    assert states["w1"] is WorkerState.GONE


def test_a_worker_of_another_start_of_the_machine_is_gone(world: World) -> None:
    run = world.running()
    world.clock.boot_name, world.clock.boot_s = "boot-2", 3.0  # its lease seems to hold for long
    world.worker("w2")
    assert world.do(take_over("w1", gone=False)) == TakenOver((run.pk,))
    assert {row.id: row.state for row in world.store.workers()}["w1"] is WorkerState.GONE


def test_only_one_of_two_takeovers_wins(world: World) -> None:
    run = world.running()
    world.worker("w2")
    world.worker("w3")
    answers = world.store.transact([take_over("w1", "w2"), take_over("w1", "w3")])
    assert answers[0] == TakenOver((run.pk,))
    assert isinstance(answers[1], Refused)
    assert world.get(run.pk).crashes == 1


def test_only_one_of_many_takeovers_at_once_wins(store_factory: StoreFactory, world: World) -> None:
    run = world.running()
    names = [world.worker(f"w{n}") for n in range(2, 10)]
    barrier, answers = threading.Barrier(len(names)), []

    def race(name: str) -> None:
        store = store_factory(world.clock)
        barrier.wait()
        answers.extend(store.transact([take_over("w1", name)]))

    threads = [threading.Thread(target=race, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [a for a in answers if isinstance(a, TakenOver)] == [TakenOver((run.pk,))]
    assert len([a for a in answers if isinstance(a, Refused)]) == len(names) - 1
    assert world.get(run.pk).crashes == 1


def test_nobody_takes_over_from_itself(world: World) -> None:
    world.running()
    assert isinstance(world.do(take_over("w1", "w1")), Refused)


def test_an_unknown_worker_that_owns_nothing_is_not_taken_over(world: World) -> None:
    world.worker("w2")
    assert isinstance(world.do(take_over("never-seen")), Refused)
    assert world.do(Register(worker=WorkerRow(id="never-seen", pid=1), lease_s=1)) == Beaten(world.clock.boot() + 1)


def test_a_run_whose_workers_die_again_and_again_is_stuck(world: World) -> None:
    run = world.running()
    other = world.running("other")
    for n in range(1, 4):
        name = world.worker(f"w{n + 1}")
        assert world.do(take_over(f"w{n}", name, max_crashes=4)) == TakenOver((run.pk, other.pk))
        world.claim(name, limit=2)
        other = world.get(other.pk)
        assert world.do(write(other, record(n))) == Done()  # it gets on, so its count starts anew
    world.worker("w5")
    assert world.do(take_over("w4", "w5", max_crashes=4)) == TakenOver((other.pk,), (run.pk,))
    now = world.get(run.pk)
    assert (now.status, now.reason, now.crashes, now.owner, now.due) == (
        Status.STUCK,
        Reason.CRASH_LOOP,
        4,
        None,
        None,
    )
    assert "4" in now.detail


def test_delivering_a_message_is_getting_on_too(world: World) -> None:
    run = world.running()
    world.worker("w2")
    world.do(take_over("w1"))
    (run,) = world.claim("w2")
    assert run.crashes == 1
    world.do(write(run, record(1, Kind.MESSAGE)))
    assert world.get(run.pk).crashes == 0


# -- orphans -------------------------------------------------------------------


def test_there_are_no_orphans_while_owners_are_known(world: World) -> None:
    world.running()
    world.clock.advance(LEASE_S * 2)
    assert world.store.orphans() == []


# -- tidying away ----------------------------------------------------------------


def test_prune_forgets_workers_that_no_open_run_can_name(world: World) -> None:
    run = world.running()
    world.clock.advance(1)
    world.do(Leave(worker="w1"))
    world.worker("w2")
    world.clock.advance(1)
    assert world.do(Prune(before=world.clock.wall())) == Claimed(())
    assert {row.id for row in world.store.workers()} == {"w1", "w2"}  # the run's records may name w1
    (run,) = world.claim("w2")
    world.do(finish(run))
    world.do(Prune(before=world.clock.wall()))
    assert {row.id for row in world.store.workers()} == {"w2"}
