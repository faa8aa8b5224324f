"""For each verb a store in which it has something to do, and the batch that does it.

Names are given, not drawn, so that two stores with the same scene can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from outlast.core.queues import Draw, Limits
from outlast.core.records import ApprovalRow, Fork, Kind, Standing, WorkerRow
from outlast.core.schedule_rows import ScheduleRow
from outlast.core.transitions import Reason, Status
from outlast.stores.approval_verbs import AnswerApproval, OpenApproval, ReopenApproval
from outlast.stores.checkpoint_verbs import (
    ChannelValue,
    CheckpointFilter,
    CheckpointRow,
    CopyThread,
    DeleteOrigins,
    DeleteThread,
    PendingWrite,
    PruneThread,
    PutCheckpoint,
    PutWrites,
)
from outlast.stores.course_verbs import Hold, Move, Terminate
from outlast.stores.protocol import ApprovalFilter, RunFilter
from outlast.stores.queue_verbs import DeclareQueue, DrawRate, PauseQueue
from outlast.stores.time_verbs import DropSchedule, Expire, PauseSchedule, PutSchedule, Slot, Tick
from outlast.stores.verbs import (
    Beat,
    Cancel,
    Claim,
    ForkRun,
    Leave,
    Prune,
    Register,
    Resolve,
    Resume,
    StartRun,
    Verb,
)
from tests.conformance.world import (
    LEASE_S,
    World,
    finish,
    message,
    next_turn,
    park,
    record,
    release,
    run_row,
    stick,
    take_over,
    write,
)

Scene = Callable[[World], Sequence[Verb]]


def named(id: str, **fields: Any) -> Any:
    """Return a run to be started, the same each time."""
    return run_row(id, incarnation=f"inc-{id}", **fields)


def running(world: World, id: str = "run", **fields: Any) -> Any:
    """Start a run that w1 owns."""
    return world.running(id, incarnation=f"inc-{id}", **fields)


def register(world: World) -> Sequence[Verb]:
    return [Register(worker=WorkerRow(id="w1", pid=7), lease_s=LEASE_S)]


def beat(world: World) -> Sequence[Verb]:
    world.worker()
    world.clock.advance(10)
    return [Beat(worker="w1", lease_s=LEASE_S)]


def leave(world: World) -> Sequence[Verb]:
    running(world)
    return [Leave(worker="w1")]


def take_over_of_a_process_that_is_gone(world: World) -> Sequence[Verb]:
    running(world)
    running(world, "second")
    world.worker("w2")
    return [take_over()]


def claim(world: World) -> Sequence[Verb]:
    world.worker()
    for n in range(5):
        world.start(f"r{n}", incarnation=f"inc-{n}")
    return [Claim(worker="w1", workflows=("flow",), limit=3, key="k1")]


def write_of_a_run_that_is_known(world: World) -> Sequence[Verb]:
    """The usual way, one statement: what is written before makes the run known."""
    run = running(world)
    world.do(write(run, record(1)))
    return [write(run, record(2), record(3))]


def write_of_two_runs(world: World) -> Sequence[Verb]:
    one, two = running(world, "one"), running(world, "two")
    return [write(one, record(1)), write(two, record(1)), write(one, record(2))]


def write_that_delivers_a_message(world: World) -> Sequence[Verb]:
    run = running(world)
    world.do(message())
    (row,) = world.store.inbox("w1")
    return [write(run, record(1, Kind.MESSAGE), consumes=(row.id,))]


def write_and_park(world: World) -> Sequence[Verb]:
    run = running(world)
    return [write(run, record(1)), park(run, due=world.clock.wall() + 5)]


def write_and_release(world: World) -> Sequence[Verb]:
    run = running(world)
    return [write(run, record(1)), release(run)]


def write_and_stick(world: World) -> Sequence[Verb]:
    run = running(world)
    return [write(run, record(1)), stick(run, Reason.UNDECODABLE)]


def write_and_finish_of_a_child(world: World) -> Sequence[Verb]:
    parent = running(world, "parent")
    child = running(world, "child", parent=parent.pk, parent_key="main/child#1")
    return [write(child, record(1)), finish(child, last_seq=1)]


def starts(world: World) -> Sequence[Verb]:
    world.worker()
    return [StartRun(run=named("x")), StartRun(run=named("y"), claim_by="w1"), StartRun(run=named("z"))]


def start_of_a_child_before_its_parent_parks(world: World) -> Sequence[Verb]:
    parent = running(world, "parent")
    child = named("child", parent=parent.pk, parent_key="main/child#1")
    return [StartRun(run=child, parent_worker="w1", parent_claim=parent.claim), park(parent)]


def send(world: World) -> Sequence[Verb]:
    run = running(world)
    world.do(park(run))
    return [message()]


def cancel(world: World) -> Sequence[Verb]:
    running(world)
    world.start("queued", incarnation="inc-queued")
    return [Cancel(id="run"), Cancel(id="queued")]


def resolve(world: World) -> Sequence[Verb]:
    run = running(world)
    world.do(write(run, record(1, Kind.INTENT, key="main/charge#1", attempt=1)))
    world.do(stick(run, Reason.IN_DOUBT))
    return [Resolve(id="run", key="main/charge#1", attempt=1, decision="happened", value=b"1", by="ann")]


def resume(world: World) -> Sequence[Verb]:
    run = running(world)
    world.do(write(run, record(1), record(2, ok=False)))
    world.do(finish(run, Status.FAILED, last_seq=2))
    return [Resume(id="run", status=Status.FAILED, last_seq=2, drop=(2,))]


def fork(world: World) -> Sequence[Verb]:
    run = running(world)
    world.do(write(run, record(1), record(2)))
    return [ForkRun(source=run.pk, keep=(1,), run=named("copy", forks=(Fork(1, run.incarnation),)))]


def prune(world: World) -> Sequence[Verb]:
    run = running(world)
    world.do(finish(run))
    world.clock.advance(100)
    return [Prune(before=world.clock.wall())]


def continue_as(world: World) -> Sequence[Verb]:
    """Alone: a write of the turn before, sent again, is fenced."""
    run = running(world)
    running(world, "child", parent=run.pk, parent_key="main/flow#1")
    world.do(message())
    world.do(write(run, record(1)))
    return [next_turn(run, last_seq=1)]


def terminate(world: World) -> Sequence[Verb]:
    parent = running(world, "parent")
    running(world, parent=parent.pk, parent_key="main/flow#1")
    return [Terminate(id="run", worker="w1", by="ann")]


def hold(world: World) -> Sequence[Verb]:
    running(world)
    return [Hold(held=True, workflow="flow")]


def move(world: World) -> Sequence[Verb]:
    world.start(incarnation="inc-run")
    return [Move(workflow="flow", to="other")]


def declare_queue(world: World) -> Sequence[Verb]:
    return [DeclareQueue(name="q", limits=Limits(concurrency=2))]


def pause_queue(world: World) -> Sequence[Verb]:
    world.do(DeclareQueue(name="q", limits=Limits(concurrency=2)))
    return [PauseQueue(name="q", paused=True, by="ann")]


def draw_rate(world: World) -> Sequence[Verb]:
    """The second has to wait for its turn, so that a turn that is given twice is seen."""
    run = running(world)
    draws = (Draw("gpt", 1.0, 10.0, 1.0), Draw("all", 4.0, 10.0, 1.0))
    fields: Any = {"worker": "w1", "run": run.pk, "claim": run.claim, "draws": draws, "slack": 1.0}
    world.do(DrawRate(**fields, key="k1"))
    return [DrawRate(**fields, key="k2")]


def expire(world: World) -> Sequence[Verb]:
    parent = running(world, "parent")
    fields: Any = {"parent": parent.pk, "parent_key": "main/flow#1", "deadline": world.clock.wall() + 5}
    run = world.start(incarnation="inc-run", **fields)
    world.clock.advance(10)
    return [Expire(worker="w1", run=run.pk, error=b"late")]


def nightly() -> PutSchedule:
    return PutSchedule(schedule=ScheduleRow(name="nightly", spec="{}", workflow="flow", next=100.0, anchor=50.0))


def put_schedule(world: World) -> Sequence[Verb]:
    return [nightly()]


def pause_schedule(world: World) -> Sequence[Verb]:
    world.do(nightly())
    return [PauseSchedule(name="nightly", next=None)]


def drop_schedule(world: World) -> Sequence[Verb]:
    world.do(nightly())
    return [DropSchedule(name="nightly")]


def tick(world: World) -> Sequence[Verb]:
    """Of three slots one is started, one waits and one is skipped."""
    world.worker()
    world.do(nightly())
    (row,) = world.store.schedules()
    slots = tuple(
        Slot(at=at, run=named(f"nightly@{at}"), busy=busy)
        for at, busy in ((100.0, "skip"), (101.0, "queue"), (102.0, "skip"))
    )
    return [Tick(worker="w1", name=row.name, revision=row.revision, key="k1", next=200.0, slots=slots, missed=1)]


def asking(run: Any) -> OpenApproval:
    """Return the question that a run asks people."""
    approval = ApprovalRow(id="ask", run=run.pk, key="main/approve#1", question="?")
    return OpenApproval(worker="w1", claim=run.claim, approval=approval)


def answering(run: Any) -> AnswerApproval:
    """Return the answer to what a run asks people."""
    return AnswerApproval(id="ask", run=run.pk, status=Standing.APPROVED, ask="x", by="ann", value=b"1", message=b"1")


def open_approval(world: World) -> Sequence[Verb]:
    return [asking(running(world))]


def answer_approval(world: World) -> Sequence[Verb]:
    run = running(world)
    world.do(asking(run))
    world.do(park(run))
    return [answering(run)]


def reopen_approval(world: World) -> Sequence[Verb]:
    run = running(world)
    world.do(asking(run))
    world.do(answering(run))
    (row,) = world.store.inbox("w1")
    fields: Any = {"worker": "w1", "run": run.pk, "claim": run.claim}
    return [ReopenApproval(**fields, id="ask", problem="no", consumes=row.id)]


def checkpoint(id: str, parent: str | None = None, **fields: Any) -> PutCheckpoint:
    """Return a checkpoint that follows another, with a value of one part."""
    row = CheckpointRow(thread="t", ns="", id=id, parent=parent, versions=(("x", id),), origin="someone")
    values = (ChannelValue("x", "#1", "", b"part"), ChannelValue("x", id, "text", b"1", ("#1",)))
    return PutCheckpoint(checkpoint=row, values=values, follows=True, **fields)


def put_checkpoint(world: World) -> Sequence[Verb]:
    world.do(checkpoint("c1"))
    return [checkpoint("c2", "c1")]


def put_checkpoint_of_a_run(world: World) -> Sequence[Verb]:
    run = running(world, "t")
    return [checkpoint("c1", worker="w1", run=run.pk, claim=run.claim)]


def put_writes(world: World) -> Sequence[Verb]:
    world.do(checkpoint("c1"))
    writes = (PendingWrite("task", 0, "x", "text", b"1"), PendingWrite("task", -1, "y", "text", b"2"))
    return [PutWrites(thread="t", ns="", checkpoint="c1", writes=writes)]


def two_checkpoints(world: World) -> None:
    for verb in (checkpoint("c1"), checkpoint("c2", "c1")):
        world.do(verb)


def delete_thread(world: World) -> Sequence[Verb]:
    two_checkpoints(world)
    return [DeleteThread(thread="t")]


def delete_origins(world: World) -> Sequence[Verb]:
    two_checkpoints(world)
    return [DeleteOrigins(origins=("someone",))]


def copy_thread(world: World) -> Sequence[Verb]:
    two_checkpoints(world)
    return [CopyThread(source="t", target="u")]


def prune_thread(world: World) -> Sequence[Verb]:
    two_checkpoints(world)
    return [PruneThread(thread="t", drop=(("", "c1"),))]


SCENES: tuple[Scene, ...] = (
    register, beat, leave, take_over_of_a_process_that_is_gone, claim, write_of_a_run_that_is_known, write_of_two_runs,
    write_that_delivers_a_message, write_and_park, write_and_release, write_and_stick, write_and_finish_of_a_child,
    starts, start_of_a_child_before_its_parent_parks, send, cancel, resolve, resume, fork, prune,
    continue_as, terminate, hold, move, declare_queue, pause_queue, draw_rate, expire,
    put_schedule, pause_schedule, drop_schedule, tick, open_approval, answer_approval, reopen_approval,
    put_checkpoint, put_checkpoint_of_a_run, put_writes, delete_thread, delete_origins, copy_thread, prune_thread,
)  # fmt: skip


def told(value: Any, world: World) -> Any:
    """Return answers, or rows, with runs by their ids: the keys of rows may have gaps after a rollback."""
    ids = {run.pk: run.id for run in world.store.runs(RunFilter(), limit=1_000)}

    def plain(value: Any, name: str = "") -> Any:
        match value:
            case msgspec.Struct():
                fields = {f: plain(getattr(value, f), f) for f in value.__struct_fields__}
                return type(value).__name__, fields
            case tuple() | list():
                return [plain(item, name) for item in value]
            case int() if name in ("pk", "run", "parent", "runs", "stuck", "woke"):
                return ids.get(value, "a run that is not there")
            case int() if name == "id":
                return "a number"
            case _:
                return value

    return plain(value)


def content(world: World) -> Any:
    """Return all that reads tell of a store, to compare with another's."""
    store = world.store
    runs = store.load([run.pk for run in store.runs(RunFilter(), limit=1_000)])
    asked = [replace(row, pk=0) for row in store.approvals(ApprovalFilter())]  # whose keys may have gaps, too
    kept = [replace(one, checkpoint=replace(one.checkpoint, pk=0)) for one in store.checkpoints(CheckpointFilter())]
    rows = (runs, store.workers(), store.orphans(), store.queues(), store.schedules(), asked, kept)
    return [told(value, world) for value in rows], store.info().counts
