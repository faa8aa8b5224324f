"""A storm in whose middle the primary is killed, its standby promoted, and the wire led there; again and again."""

from __future__ import annotations

import random
import threading
import time

import msgspec

from outlast.core.records import Record
from outlast.core.transitions import Status
from outlast.stores.protocol import RunFilter
from tests.crash.harness.fleet_storm import FleetStorm
from tests.crash.harness.scene import Process
from tests.support.pair import Pair

WAYS = ("kill", "kill", "stop", "restart", "cut", "break", "forget")
LOOKED_AT = 40  # runs whose journals are compared, for each failover


class FailoverStorm(FleetStorm, kw_only=True):
    """What was there before each failover has to be there after the last."""

    pair: Pair
    moves_every_s: float
    next_move: float = 0.0
    moving: bool = False
    results: dict[str, bytes | None] = msgspec.field(default_factory=dict)  # of runs that had succeeded
    journals: dict[str, list[Record]] = msgspec.field(default_factory=dict)  # as far as they had come

    def blow(self, runs: int, seconds: float) -> None:
        self.next_move = time.monotonic() + self.moves_every_s
        super().blow(runs, seconds)

    def _strike(self, dice: random.Random, crew: list[Process]) -> None:
        if not self.moving:
            super()._strike(dice, crew)
        else:  # there is no server that could be restarted
            self.done["kill"] += 1
            self._strike_one(dice, crew, "kill")

    def _advise(self) -> None:
        super()._advise()
        if time.monotonic() >= self.next_move and not self.moving:
            self.moving = True
            self.wakers.append(threading.Timer(0.0, self._move))  # in a thread: runs are started meanwhile
            self.wakers[-1].start()

    def _move(self) -> None:
        self.pair.until_in_sync()
        self._note()
        self.pair.fail_over()
        self.server = self.pair.primary
        self.wire.target = f"{self.server.folder}/.s.PGSQL.5432"
        self.done["fail over"] += 1
        self.pair.repair()
        self.next_move = time.monotonic() + self.moves_every_s
        self.moving = False

    def _note(self) -> None:
        """Note what can be seen, which is what is acknowledged."""
        rows = self.scene.rows()
        self.results |= {row.id: row.result for row in rows if row.status is Status.SUCCEEDED}
        for row in [row for row in rows if row.status is not Status.SUCCEEDED][:LOOKED_AT] + rows[:LOOKED_AT]:
            self.journals[row.id] = self.scene.store.records(row.pk)

    def missing(self) -> list[str]:
        """Return what was there before a failover, and is not now."""
        rows = {row.id: row for row in self.scene.store.runs(RunFilter(), limit=100_000)}
        gone = [run for run in {*self.results, *self.journals, *self.scene.accepted} if run not in rows]
        other = [run for run, result in self.results.items() if run in rows and rows[run].result != result]
        short = [
            run
            for run, records in self.journals.items()
            if run in rows and self.scene.store.records(rows[run].pk)[: len(records)] != records
        ]
        return [f"lost: runs {gone}, results of {other}, records of {short}"] if gone or other or short else []

    def ended_by_themselves(self) -> list[str]:
        """Return the workers that had to be started anew though nobody had killed them."""
        return [
            f"{each.name} had ended by itself" for each in self.scene.processes if each.ended and each not in self.shot
        ]
