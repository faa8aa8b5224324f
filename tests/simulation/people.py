"""Those who want something of the runs: customers who start them and wait, and an operator who decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from outlast.core.certainty import undecided_intents
from outlast.core.errors import OutlastError, RunCancelled, RunStuck
from outlast.core.identity import derive
from outlast.core.records import Record, RunRow
from outlast.core.settings import DidNotHappen, Happened
from outlast.core.transitions import Reason, Status
from outlast.stores.verbs import Resume
from tests.simulation.programs import Plan, call_of
from tests.simulation.world import receipt

if TYPE_CHECKING:
    from tests.simulation.fleet import Fleet
    from tests.simulation.oracle import Oracle
    from tests.simulation.process import Process, SimApp
    from tests.simulation.simulator import Simulator


class Customer:
    """Starts one run in some process and waits for its result; where that process dies, asks at another."""

    def __init__(self, sim: Simulator, fleet: Fleet, oracle: Oracle, run: str, plan: Plan) -> None:
        self._sim = sim
        self._fleet = fleet
        self._oracle = oracle
        self.run = run
        self.plan = plan
        self.served = False
        self._at: Process | None = None

    def go(self) -> None:
        """Ask in some process."""
        process = self._fleet.pick()
        if process is None:
            self._sim.after(0.2, self.go)
            return
        self._at = process
        process.on_gone.append(lambda: self._again(process))
        process.spawn(self._ask(process))

    def cancel(self) -> None:
        """Change one's mind."""
        process = self._fleet.pick()
        if process is not None:
            self._oracle.unwanted.add(self.run)
            self._sim.tell("customer", "cancels", self.run)
            process.spawn(_forgiving(process.app.cancel, self.run))

    def _again(self, process: Process) -> None:
        """Ask anew, unless this was long ago."""
        if self._at is process and not self.served:
            self._at = None
            self._sim.after(self._sim.delay(0.1), self.go)

    async def _ask(self, process: Process) -> None:
        try:
            status, value = await self._want(process.app)
        except (OutlastError, TimeoutError) as error:
            self._sim.tell("customer", "is told", self.run, repr(error))
            if not process.gone:
                self._again(process)
            return
        self.served = True
        self._sim.tell("customer", "is told", self.run, status)
        self._oracle.told(self.run, status, value)

    async def _want(self, app: SimApp) -> tuple[str, Any]:
        sim, call = self._sim, call_of(self.plan)
        call.take()  # whoever gives up waiting before the start was even tried has not forgotten it
        start = app.start(call, id=self.run)
        if sim.chance(self._fleet.weather.impatient):
            run = await asyncio.wait_for(start, sim.delay(0.01))
        else:
            run = await start
        sim.tell("customer", "is told", self.run, "is started")
        self._oracle.acknowledged(self.run)
        try:
            return "succeeded", await run.result()
        except ValueError as error:
            return "failed", (self.plan, str(error))
        except RunCancelled:
            return "cancelled", None
        except RunStuck:
            await asyncio.sleep(1.0)  # the operator sees to it
            raise


class Operator:
    """Decides what only a person can, and always by what is true."""

    def __init__(self, sim: Simulator, fleet: Fleet, oracle: Oracle) -> None:
        self._sim = sim
        self._fleet = fleet
        self._oracle = oracle

    def look(self) -> None:
        """See to every run that is stuck, again and again."""
        self._sim.after(self._sim.delay(1.0), self.look)
        stuck = [row for row, _ in self._oracle.known.values() if row.status is Status.STUCK]
        for row in stuck:
            process = self._fleet.pick()
            if process is not None:
                self._help(row, process)

    def _help(self, row: RunRow, process: Process) -> None:
        if row.reason is Reason.CRASH_LOOP:
            last_seq = self._oracle.known[row.pk][1][-1].seq if self._oracle.known[row.pk][1] else 0
            verb = Resume(id=row.id, status=Status.STUCK, last_seq=last_seq)  # not a run that was cancelled meanwhile
            process.spawn(_forgiving(process.app.ask, verb))
        elif row.reason is Reason.IN_DOUBT:
            for intent in self._undecided(row):
                self._decide(row, intent, process)
        else:
            self._oracle.refuse(f"I2: run {row.id} is stuck: {row.reason}: {row.detail}")

    def _undecided(self, row: RunRow) -> list[Record]:
        found = undecided_intents(self._oracle.memory.records(row.pk))
        if not found:
            self._oracle.refuse(f"I2: run {row.id} is stuck in doubt, and every doubt is decided")
        return found

    def _decide(self, row: RunRow, intent: Record, process: Process) -> None:
        key, world = derive(row.incarnation, "step", intent.key), self._fleet.world
        if any(request.key == key for request in world.under_way):
            return  # nobody can know yet
        booked = world.booked.get(key)
        truth = Happened(receipt(booked[0].kind, booked[0].n)) if booked else DidNotHappen()
        self._sim.tell("operator", "decides", row.id, intent.key, repr(truth))
        process.spawn(_forgiving(process.app.resolve, row.id, intent.key, truth, attempt=intent.attempt))


async def _forgiving(ask: Callable[..., Coroutine[Any, Any, Any]], *args: Any, **kwargs: Any) -> None:
    """Ask; a refusal is an answer, too."""
    try:
        await ask(*args, **kwargs)
    except OutlastError:
        return
