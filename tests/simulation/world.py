"""The outside world: effects arrive there late, or never, whatever became of the process that sent them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from outlast.core.effects import InStep

if TYPE_CHECKING:
    from tests.simulation.oracle import Oracle
    from tests.simulation.process import Process
    from tests.simulation.simulator import Simulator

ON_THE_WIRE_S = 2.0
"""The longest that a request is under way. The steps of the programs settle later than this."""


class Trouble(Exception):
    """Root of what the world answers when it gives no value."""


class NotSent(Trouble):
    """The connection was refused: nothing left."""


class Broken(Trouble):
    """The connection broke after the request had left."""


class Declined(Trouble):
    """The world's answer is no."""


@dataclass
class Request:
    """One request, from one attempt."""

    kind: str
    key: str
    run: str
    step: str
    n: int
    process: Process
    answer: asyncio.Future[Any]
    arrived: bool = False


@dataclass
class Roughness:
    """How often requests go wrong: refused at once, lost on the way, lost or broken on the way back."""

    refused: float = 0.0
    lost: float = 0.0
    unanswered: float = 0.0
    broken: float = 0.0
    unknown: float = 0.0  # how often it cannot say what became of a request
    mean_s: float = 0.02
    slow: float = 0.0  # how often a way takes up to ON_THE_WIRE_S


@dataclass
class World:
    """What has happened outside, and what is on its way there."""

    sim: Simulator
    rough: Roughness = field(default_factory=Roughness)
    booked: dict[str, list[Request]] = field(default_factory=dict)  # `once` effects by key
    applied: dict[str, int] = field(default_factory=dict)  # `idempotent` effects by key: how often they were asked for
    under_way: list[Request] = field(default_factory=list)
    oracle: Oracle | None = None

    def begins(self, process: Process, place: InStep) -> None:
        """A step's function is called."""
        self.sim.tell(process.name, "executes", f"{place.run_id} {place.step_id} attempt {place.attempt}")
        if self.oracle is not None:
            self.oracle.executes(process, place)
        process.jolt()

    def machine_restarted(self) -> None:
        """All processes are gone with their machine."""
        if self.oracle is not None:
            self.oracle.machine_restarted()

    async def request(self, process: Process, place: InStep, kind: str, n: int) -> Any:
        """Send a request and wait for its answer. Raises NotSent, Broken, Declined."""
        sim, rough = self.sim, self.rough
        if sim.chance(rough.refused):
            await asyncio.sleep(sim.delay(rough.mean_s))
            raise NotSent(f"{kind} {n}: connection refused")
        answer: asyncio.Future[Any] = process.loop.create_future()
        request = Request(kind, place.idempotency_key, place.run_id, place.step_id, n, process, answer)
        if not sim.chance(rough.lost):
            self.under_way.append(request)
            sim.after(self._way(), self._arrive, request)
        return await answer

    def _way(self) -> float:
        sim, rough = self.sim, self.rough
        if sim.chance(rough.slow):
            return sim.random.random() * ON_THE_WIRE_S
        return min(sim.delay(rough.mean_s), ON_THE_WIRE_S)

    def _arrive(self, request: Request) -> None:
        self.under_way.remove(request)
        request.arrived = True
        sim, rough = self.sim, self.rough
        sim.tell("world", "takes", f"{request.kind} {request.n} of {request.run} {request.step}")
        request.process.jolt()
        declined = request.kind == "charge" and declines(request.n)
        if request.kind == "put":
            self.applied[request.key] = self.applied.get(request.key, 0) + 1
        elif not declined:
            self.booked.setdefault(request.key, []).append(request)
            if self.oracle is not None:
                self.oracle.booked(request, self.booked[request.key])
        if not sim.chance(rough.unanswered):
            broken = sim.chance(rough.broken)
            sim.after(self._way(), self._answer, request, declined, broken, process=request.process)

    def _answer(self, request: Request, declined: bool, broken: bool) -> None:
        answer = request.answer
        if answer.done():
            return
        if broken:
            answer.set_exception(Broken(f"{request.kind} {request.n}: connection broken"))
        elif declined:
            answer.set_exception(Declined(f"{request.kind} {request.n}: declined"))
        else:
            answer.set_result(receipt(request.kind, request.n))
        request.process.plan_turn()

    async def ask(self, key: str) -> bool | None:
        """Ask whether a `once` effect took place; None when nobody can tell. It may still be on its way."""
        sim, rough = self.sim, self.rough
        await asyncio.sleep(sim.delay(rough.mean_s))
        if sim.chance(rough.broken):
            raise Broken("the question got no answer")
        if sim.chance(rough.unknown):
            return None
        happened = bool(self.booked.get(key))
        await asyncio.sleep(sim.delay(rough.mean_s))
        return happened


def declines(n: int) -> bool:
    """Whether the world will not take this charge."""
    return n % 5 == 0


def receipt(kind: str, n: int) -> str:
    """What the world answers: the same whenever it is asked."""
    return f"{kind} {n}"
