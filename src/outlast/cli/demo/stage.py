"""What all acts share: the outside systems, the workers, the ledgers, and the record of what an act showed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outlast import App, Run
from outlast.cli.demo.agent import SABOTAGE_VARIABLE, process_order
from outlast.cli.demo.narrator import Narrator
from outlast.cli.demo.processes import DEADLINE_S, Event, Processes
from outlast.cli.demo.tools import SYSTEMS_VARIABLE

SYSTEMS = ("model", "payments", "tickets")


@dataclass(slots=True)
class Act:
    """What one act showed. `problems` are the ways in which it was not what it should be: none, if all is well."""

    name: str
    title: str
    order: str
    finished: bool = False
    charges: int = 0
    tickets: int = 0
    plans: int = 0
    figures: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def expect(self, fact: bool, problem: str) -> None:
        """Note a problem unless the fact holds."""
        if not fact:
            self.problems.append(problem)

    def expect_ledgers(self, *, charges: int, tickets: int, plans: int) -> None:
        """Compare what the ledgers say with what they should."""
        found = {"charge": self.charges, "ticket": self.tickets, "plan": self.plans}
        for noun, wanted in {"charge": charges, "ticket": tickets, "plan": plans}.items():
            problem = f"the ledger has {count(found[noun], noun)} for order {self.order}, not {wanted}"
            self.expect(found[noun] == wanted, problem)

    @property
    def ledgers(self) -> str:
        """What the ledgers say, in words."""
        return f"{count(self.charges, 'charge')}, {count(self.tickets, 'ticket')}, {count(self.plans, 'plan')}"


@dataclass(frozen=True, slots=True)
class Death:
    """A worker that was killed while it executed a run."""

    worker: str
    survivor: str
    at: float
    pid: int


@dataclass(slots=True)
class Stage:
    """See the top of this file. Times that end in `_s` are seconds, those in `_ms` milliseconds."""

    folder: Path
    narrator: Narrator
    fast: bool
    sabotage: bool
    app: App = field(init=False)  # a client only
    processes: Processes = field(init=False)
    workers: list[str] = field(default_factory=list)  # those that live
    workers_started: int = 0

    def __post_init__(self) -> None:
        self.processes = Processes(self.folder)
        if self.sabotage:
            self.processes.environment[SABOTAGE_VARIABLE] = "1"

    @property
    def url(self) -> str:
        """The store of acts 3 and 4: a path, which needs no quoting."""
        return str(self.folder / "outlast.db")

    async def pause(self, seconds: float) -> None:
        """Give people time to read. Nothing waits for this."""
        if not self.fast:
            await asyncio.sleep(seconds)

    # -- processes -----------------------------------------------------------------

    async def open(self) -> None:
        """Start the outside systems and two workers."""
        for name in SYSTEMS:
            await self.processes.start(name, "systems", name, str(self._ledger(name)))
        addresses = {name: (await self.processes.event("ready", who=name)).data["address"] for name in SYSTEMS}
        self.processes.environment[SYSTEMS_VARIABLE] = json.dumps(addresses)
        await self.replace_the_dead()

    async def replace_the_dead(self) -> None:
        """Start workers until there are two."""
        while len(self.workers) < 2:
            name = f"worker {chr(ord('A') + self.workers_started)}"
            self.workers_started += 1
            await self.processes.start(name, "worker", self.url)
            self.workers.append(name)

    async def hold(self, system: str, order: str, when: str) -> None:
        """Let a system hold its next request for this order, before it is booked or after."""
        await self.processes.command(system, order=order, when=when)
        await self.processes.event("will_hold", who=system, order=order, when=when)

    async def held(self, system: str, order: str) -> None:
        """Wait until the system holds the request."""
        await self.processes.event("held", who=system, order=order)

    # -- runs ------------------------------------------------------------------------

    async def start_order(self, order: str, *, can_ask: bool = True) -> Run[str]:
        """Start the run of an order once both workers look for work; one of them takes it."""
        for name in self.workers:
            await self.processes.event("ready", who=name)
        return await self.app.start(process_order(order, can_ask), id=f"order-{order}")

    async def kill_worker_of(self, run: Run[str]) -> Death:
        """Kill the worker that executes a run."""
        victim = (await self.processes.event("run.claimed", run=run.id)).who
        survivor = next(name for name in self.workers if name != victim)
        at = self.processes.kill(victim)
        self.workers.remove(victim)
        return Death(victim, survivor, at, self.processes.children[victim].pid)

    async def noticed(self, act: Act, death: Death) -> None:
        """Wait until another worker has noticed the death, and note who did and after how long."""
        event = await self.processes.event(
            "worker.took_over", after=death.at, where=lambda e: f"-{death.pid}-" in e.data["dead"]
        )
        act.figures |= {
            "killed": death.worker,
            "noticed_by": event.who,
            "noticed_ms": ms_between(death.at, event.at),
            "evidence": event.data["evidence"],
        }

    async def next_step(self, run: Run[str], death: Death) -> Event:
        """Wait for the first step of a run that began after the death."""
        return await self.processes.event(
            "step.started", run=run.id, after=death.at, where=lambda e: e.who != death.worker
        )

    def started(self, run: Run[str], worker: str) -> list[str]:
        """Return the identities of the steps of a run that a worker has started."""
        events = [e for e in self.processes.events if e.name == "step.started" and e.who == worker]
        return [event.data["step"] for event in events if event.data["run"] == run.id]

    async def result(self, act: Act, run: Run[str], death: Death) -> str:
        """Wait for the result of a run, and note when its end was reported."""
        result = await run.result(DEADLINE_S)
        event = await self.processes.event("run.ended", run=run.id)
        act.finished = True
        act.figures |= {"finished_by": event.who, "finished_ms": ms_between(death.at, event.at)}
        return result

    # -- ledgers -----------------------------------------------------------------------

    def _ledger(self, system: str) -> Path:
        return self.folder / f"{system}.jsonl"

    def entries(self, system: str, order: str) -> list[dict[str, Any]]:
        """Return what a system's ledger has for an order."""
        entries = [json.loads(line) for line in self._ledger(system).read_text().splitlines()]
        return [entry for entry in entries if entry["order"] == order]

    def plans(self, order: str) -> list[str]:
        """Return the plans that the model made for an order, in its words."""
        return [entry["words"] for entry in self.entries("model", order) if entry["purpose"] == "plan"]

    def read_ledgers(self, act: Act) -> None:
        """Count what was done for an act's order."""
        act.charges = len(self.entries("payments", act.order))
        act.tickets = len(self.entries("tickets", act.order))
        act.plans = len(self.plans(act.order))

    async def within(self, seconds: float, condition: Callable[[], bool]) -> bool:
        """Look for as long as this whether a condition comes true."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() >= end:
                return False
            await asyncio.sleep(0.05)
        return True


def count(number: int, noun: str) -> str:
    """Return a number and its noun."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def ms_between(start: float, end: float) -> int:
    """Return whole milliseconds between two times in seconds."""
    return round((end - start) * 1000)
