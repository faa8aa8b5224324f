"""What must be true when all is over, found in the store and in the world."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from outlast.codec import JsonCodec
from outlast.core.body import AsyncBody
from outlast.core.definitions import Step
from outlast.core.engine import Engine
from outlast.core.identity import derive
from outlast.core.records import Kind, Record, RunRow
from outlast.core.transitions import ENDED, Status
from outlast.runtime import registry
from tests.simulation.plans import fits, must_fail

if TYPE_CHECKING:
    from tests.simulation.fleet import Fleet
    from tests.simulation.oracle import Oracle
    from tests.simulation.people import Customer
    from tests.simulation.process import Process
    from tests.simulation.world import World

CODEC = JsonCodec()


def verdict(oracle: Oracle, fleet: Fleet, customers: list[Customer]) -> Iterator[str]:
    """Say all that is wrong at the end."""
    world = fleet.world
    plans = {customer.run: customer.plan for customer in customers}
    for row, records in oracle.known.values():
        if row.status not in ENDED:
            yield f"I2: run {row.id} is {row.status} at the end: {row.detail}"
            continue
        plan = plans.get(row.id) or CODEC.decode(row.input)[0][0]  # that of a child is its argument
        if row.status is Status.FAILED and not must_fail(plan):
            yield f"I7: run {row.id} failed: {CODEC.decode_error(row.error or b'')!r}"
        if row.status is Status.SUCCEEDED and must_fail(plan):
            yield f"I7: run {row.id} succeeded, and its plan was {plan}"
        elif row.status is Status.SUCCEEDED and not fits(plan, CODEC.decode(row.result or b"")):
            yield f"I7: run {row.id} returned {row.result!r}, and its plan was {plan}"
        if not row.detail.startswith("cancelled"):  # else it was not for the body to say how it ends
            yield from _replays(row, records)
        yield from _effects(row, records, world)
    for process in fleet.processes:
        if process.open and not process.gone:
            yield from _left_behind(process)
    yield from (f"I10: run {run} was started, and is gone" for run in oracle.started if oracle.memory.run(run) is None)


def _left_behind(process: Process) -> Iterator[str]:
    """I2: whatever a run took in a worker's memory was given back at its end, however it came."""
    worker = process.app.worker
    if worker is None:
        return
    kept = {
        "runs in memory": len(worker.executions),
        "places among the steps in flight": process.limits.max_steps - worker.places._free,
        "calls waiting for a place": len(worker.places._waiting) + len(worker.places._held),
        "runs on their way into memory": len(worker.claims._loading) + worker.claims._starting,
    }
    yield from (f"I2: {process.name} has {n} {what} at the end" for what, n in kept.items() if n)


def _replays(row: RunRow, records: list[Record]) -> Iterator[str]:
    """I7: the journal leads to the same end again."""
    args, _ = CODEC.decode(row.input)
    definition = registry.find(row)
    function = definition.call if isinstance(definition, Step) else definition.fn

    async def main() -> Any:
        return await function(*args)

    engine = Engine(row, records, CODEC, AsyncBody(main))
    try:
        engine.begin()
        if engine.failure is not None:
            yield f"I7: run {row.id} does not replay: {engine.failure}"
        elif engine.outcome is None:
            yield f"I7: run {row.id} has {row.status}, and its replay waits for {[p.key for p in engine.waits_for()]}"
        elif engine.outcome.status is not row.status:
            yield f"I7: run {row.id} has {row.status}, and its replay {engine.outcome}"
        elif row.status is Status.SUCCEEDED and CODEC.encode(engine.outcome.value) != row.result:
            yield f"I7: run {row.id} returned {row.result!r}, and its replay {engine.outcome.value!r}"
    finally:
        engine.stop()


def _effects(row: RunRow, records: list[Record], world: World) -> Iterator[str]:
    """I5, I10: the world has every effect that the journal claims, and the journal knows of every `once` effect."""
    claimed = set()
    for record in records:
        if record.kind not in (Kind.STEP, Kind.LATE) or not record.ok:
            continue
        key = derive(row.incarnation, "step", record.key)
        claimed.add(record.key)
        if record.name in ("sim_charge", "sim_letter") and key not in world.booked:
            yield f"I5: record {record.seq} of run {row.id} says {record.key} happened, and it did not"
        if record.name == "sim_put" and not world.applied.get(key):
            yield f"I10: record {record.seq} of run {row.id} says {record.key} was applied, and it was not"
    if row.detail.startswith("cancelled"):
        return
    for bookings in world.booked.values():
        if bookings[0].run == row.id and bookings[0].step not in claimed:
            yield f"I5: {bookings[0].step} of run {row.id} reached the world, and its journal does not know"
