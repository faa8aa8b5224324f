"""The worker's eyes: a thread that looks for dead workers and for changes that others made.

A loop that comes back, never a single pass: whatever one look missed, the next one finds. It
writes nothing itself; it tells the worker's loop what there is to do.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from outlast.core.errors import OutlastError
from outlast.core.records import RunRow, WorkerRow, WorkerState
from outlast.runtime.clock import SystemClock
from outlast.runtime.deadlines import expire_unbegun, overdue_because
from outlast.runtime.declared import DECLARED
from outlast.runtime.liveness import Alive, probe, remove_lock_file
from outlast.runtime.seen import SeenWorker
from outlast.runtime.timetable import Timetable
from outlast.stores.protocol import Store

if TYPE_CHECKING:
    from outlast.runtime.worker import Worker

TICK_S = 0.025
HINT_GAP_S = 0.01
"""Between two looks that hints bring, however many there are."""
IDLE_TICK_S = 0.1
"""How often it looks when nothing but beats has come for `IDLE_AFTER_S`: an idle worker should cost nothing to speak
of."""
IDLE_AFTER_S = 2.0
LOOK_ANYWAY_S, LOOKS_APART_S = 2.0, 0.5
"""A look for work, whether or not anything has changed: a store may not tell of what this process wrote itself, or that
another has parked a run. In a fleet all together look once in `LOOKS_APART_S`."""
SWEEP_S = 1.0
"""How often all workers together look at the whole: each sweeps as much more rarely as there are others."""
LATE_S = 0.25
"""What each worker of a fleet adds to the time in which another's end of its lease is noticed: those that look for it
just then do so one after the other, and all but the first find it taken over."""
ASK_LOOP_S = 1.0
ASK_SLOTS_S = 0.1
JUST_AFTER_S = 1e-3
SET_BACK_S = 1.0
SWEEP_AFTER_CHANGE_S = 0.05


class Told(Protocol):
    """What the watcher tells. Called in its thread."""

    def listens(self) -> bool:
        """Whether there is still somebody to tell."""
        ...

    def changed(self) -> None:
        """Another process may have written."""
        ...

    def due(self) -> None:
        """A run may be claimed now."""
        ...

    def dead(self, worker: str, gone: bool, evidence: str, *, dropped: bool = False) -> None:
        """This worker is dead, or its session with the store has dropped."""
        ...

    def slots(self) -> None:
        """A schedule may have something to do."""
        ...

    def overdue(self, runs: Sequence[RunRow]) -> None:
        """Nobody has begun these runs by their deadlines."""
        ...

    def silent_loop(self, seconds: float) -> None:
        """The event loop has not answered for so long."""
        ...


class Watcher:
    """See the top of this file."""

    def __init__(
        self,
        store: Store,
        clock: SystemClock,
        told: Told,
        me: str,
        workflows: Callable[[], Sequence[str]],
        patience_s: float,
        queues: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._store = store
        self._clock = clock
        self._told = told
        self._me = me
        self._workflows = workflows
        self._queues = queues
        self._patience_s = patience_s
        self._judges_from = 0.0
        # One that has just come cannot know whether the others could renew. Who lives does so every third of a lease.
        self._judges_leases_from = clock.boot() + patience_s / 2
        self._last_tick = clock.boot()
        self._idle_from = self._last_tick + IDLE_AFTER_S
        self._stop = threading.Event()
        self._hint = threading.Event()  # there may be something to see
        self._hinted = 0.0  # when it looked last since there was a hint
        self._pid = os.getpid()
        self._change = -1
        self._changes = 0  # seen since the last sweep
        self._leases: dict[str, float] = {}  # as the last sweep found them
        self._peers: list[WorkerRow] = []
        self._tidied: set[str] = set()  # gone workers whose lock file was removed
        self._swept = self._next_sweep = 0.0
        self._alive = 1  # workers, as the last sweep found them
        self._random = Random(me)  # so that those of a fleet do not look at the same moment
        self._look_anyway_at = 0.0
        self._ask_loop_at = 0.0
        self._next_due: float | None = None
        self._look_due = self._look_slots = True
        self._next_slot: float | None = None
        self._slots_from = 0.0  # when it asks for the next slot again, by the boot clock
        self._slots_again = 0.0
        self._ahead = inf  # what the store's clock is ahead of this machine's
        self._declared = 0
        self._announced = False
        self._loop_asked: float | None = None
        self._loop_said = 0.0
        self._thread = threading.Thread(target=self._run, name="outlast-watcher", daemon=True)

    def start(self) -> None:
        """Start looking."""
        self._thread.start()

    def stop(self) -> None:
        """Stop looking, and wait for the thread."""
        self._stop.set()
        self._hint.set()
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def look_due(self) -> None:
        """What is due may have changed: ask the store again. (Called on the loop, after each claim.)"""
        self._announced = False
        self._look_due = self._look_slots = True

    def loop_answered(self) -> None:
        """The event loop turned."""
        self._loop_asked = None
        self._loop_said = 0.0

    @property
    def tick_s(self) -> float:
        """How long it rests, at most, before it looks again by itself."""
        return TICK_S if self._last_tick < self._idle_from else IDLE_TICK_S

    @property
    def rest_s(self) -> float:
        """How long it rests: what comes due is told of at its time."""
        due = self._next_due if not self._announced else None
        coming = [moment for moment in (due, self._next_slot) if moment is not None]
        first = min(coming, default=inf) - self._store.now()
        return min(self.tick_s, first + JUST_AFTER_S) if first > 0 else self.tick_s

    # -- the thread --------------------------------------------------------------------

    def _run(self) -> None:
        self._store.hear(self._hint.set)
        # Asked here, and not seen where something is told: the store may be closed by then, and has nothing to tell of.
        while not self._stop.is_set() and self._told.listens():
            if self._hint.wait(self.rest_s):
                # A hint is followed at once, also where one run is started after the other.
                self._stop.wait(max(0.0, self._hinted + HINT_GAP_S - self._clock.boot()))
                self._hint.clear()
                self._hinted = self._clock.boot()
            if not self._stop.is_set() and (rest_s := self._look()):
                self._stop.wait(rest_s)

    def _look(self) -> float:
        """Look once. Return the seconds to rest beyond the usual."""
        try:
            self._tick()
        except OutlastError:
            self._judges_from = self._clock.boot() + self._patience_s
            return 0.25  # the store is unavailable: the writer says so, and the next look makes up for this one
        return 0.0

    def _tick(self) -> None:
        now = self._clock.boot()
        if now - self._last_tick > self.tick_s + self._patience_s / 3:
            # This process, or the whole machine, stood still, or the store was away: others, too,
            # get the time to renew their leases before they are judged by them.
            self._judges_from = now + self._patience_s
        self._last_tick = now
        self._see_changes(now)
        if now >= self._judges_from:
            for worker in self._store.dropped():
                if worker != self._me:
                    self._told.dead(worker, False, "its session with the database has ended", dropped=True)
        self._look_ahead()
        if now >= self._ask_loop_at:
            self._ask_loop_at = now + ASK_LOOP_S
            self._ask_loop(now)
        if now >= self._next_sweep:
            self._swept, self._next_sweep = now, now + SWEEP_S  # where this one fails
            self._next_sweep = now + self._sweep(now)
        else:
            self._look_for_work(now)
        self._tell_what_has_come(now)
        for peer in self._peers:
            if probe(peer, self._clock.boot_id()) is Alive.NO:
                self._peers = [p for p in self._peers if p is not peer]
                self._next_sweep = 0.0
                self._told.dead(peer.id, True, "its process is gone: its lock file was released")

    def _see_changes(self, now: float) -> None:
        change = self._store.change()
        changed = change != self._change
        if changed:
            self._change = change
            self._changes += 1
            # It may have been a new worker, or just a beat. Many changes bring no sweep each.
            self._next_sweep = min(self._next_sweep, max(now, self._swept + SWEEP_AFTER_CHANGE_S))
            self._idle_from = max(self._idle_from, self._next_sweep)
            self._look_anyway_at = now
        if now >= self._look_anyway_at:
            self._look_anyway_at = now + max(LOOK_ANYWAY_S, LOOKS_APART_S * self._alive)
            if changed or now >= self._swept + LOOK_ANYWAY_S:  # or else the sweep has just looked
                self._look_due = self._look_slots = True
            self._told.changed()

    def _look_for_work(self, now: float) -> None:
        """Ask again what is to come, where it may have changed."""
        wanted = self._workflows(), self._queues(), self._me
        if self._look_slots and now >= self._slots_from:
            self._looked(now)
            self._next_due, self._next_slot = self._store.to_come(*wanted)
        elif self._look_due:
            self._look_due = False
            self._next_due = self._store.next_due(*wanted)

    def _tell_what_has_come(self, now: float) -> None:
        if self._next_due is not None and not self._announced and self._next_due <= self._store.now():
            self._announced = True
            self._told.due()
        if self._next_slot is not None and now >= self._slots_again and self._next_slot <= self._store.now():
            self._slots_again = now + ASK_SLOTS_S
            self._told.slots()

    def _looked(self, now: float) -> None:
        """Note, before the store is asked, that it is: what changes meanwhile asks for another look."""
        self._look_due = self._look_slots = False
        self._slots_from = now + ASK_SLOTS_S

    def _look_ahead(self) -> None:
        """Have schedules looked at anew where the clock was set back, or code has declared more of them.

        At each look, as a clock that goes ahead for a moment lets a schedule's next slot be far away when it is back.
        """
        ahead = self._store.now() - self._clock.boot()
        if ahead < self._ahead - SET_BACK_S or len(DECLARED) != self._declared:
            self._declared = len(DECLARED)
            self._told.slots()
        self._ahead = ahead

    def _sweep(self, now: float) -> float:
        """Look at the whole. Return the seconds until the next time."""
        self._looked(now)
        epoch, lease_now = self._store.lease_epoch(), self._store.lease_now()
        found = self._store.survey(self._workflows(), self._queues(), self._me)
        self._next_due, rows, peers = found.next_due, found.workers, []
        self._next_slot = found.next_slot
        if found.overdue:
            self._told.overdue(found.overdue)
        self._look_for_beats(rows)
        mine = next((row.lease_until for row in rows if row.id == self._me), 0.0)
        if mine - lease_now < self._patience_s / 2:
            # This worker itself cannot renew its lease in time, since somebody holds the write lock, so it is no
            # wonder that others cannot. It judges them when all have had the time to.
            self._judges_from = self._clock.boot() + self._patience_s
        judges = self._clock.boot() >= max(self._judges_from, self._judges_leases_from)
        for row in rows:
            if row.state is WorkerState.GONE and row.id not in self._tidied:
                self._tidied.add(row.id)
                remove_lock_file(row)
            if row.id == self._me or row.state is WorkerState.GONE:
                continue
            peers.append(row)
            if row.state is WorkerState.ALIVE and row.boot != epoch:
                self._told.dead(row.id, False, "its machine was restarted")
            elif row.state is WorkerState.ALIVE and judges and row.lease_until < lease_now:
                self._told.dead(row.id, False, "its lease ran out")
        self._peers = peers
        for owner in found.orphans:
            if owner != self._me and all(p.id != owner or p.state is not WorkerState.ALIVE for p in peers):
                self._told.dead(owner, False, "it owns runs but is no worker any more")
        return self._until_next_sweep(peers, epoch, lease_now) if not found.orphans else SWEEP_S

    def _until_next_sweep(self, peers: Sequence[WorkerRow], epoch: str, lease_now: float) -> float:
        """Share the sweeps with the others that live, but be there when a lease can have run out.

        A lease is only ever prolonged: until the first of those that were seen ends, none has run out.
        """
        alive = [peer for peer in peers if peer.state is WorkerState.ALIVE]
        self._alive = len(alive) + 1
        shared = SWEEP_S * (1 + 2 * len(alive) * self._random.random())  # on average one for each that lives
        ends = [peer.lease_until - lease_now if peer.boot == epoch else 0.0 for peer in alive]
        noticing = min(ends, default=inf) + LATE_S * len(alive) * self._random.random()
        return max(SWEEP_S, min(shared, noticing))

    def _look_for_beats(self, rows: Sequence[WorkerRow]) -> None:
        """Be busy for a while, unless each change since the last sweep was a worker's beat, which gives nobody work."""
        leases = {row.id: row.lease_until for row in rows if row.state is WorkerState.ALIVE}
        if self._changes > len(leases.items() - self._leases.items()):
            self._idle_from = self._clock.boot() + IDLE_AFTER_S
        self._changes, self._leases = 0, leases

    def _ask_loop(self, now: float) -> None:
        if self._loop_asked is None:
            self._loop_asked = now
            self._told.silent_loop(0.0)
        elif now - self._loop_asked >= ASK_LOOP_S and now - self._loop_said >= 10 * ASK_LOOP_S:
            self._loop_said = now
            self._told.silent_loop(now - self._loop_asked)


class ToldOnLoop:
    """Carries what the watcher tells from its thread to the worker's loop."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._timetable = Timetable(worker)

    def _soon(self, act: Callable[..., None], *args: Any) -> None:
        with contextlib.suppress(RuntimeError):  # it was closed by another thread: an App that was never closed itself
            self._worker.loop.call_soon_threadsafe(act, *args)

    def listens(self) -> bool:
        return not self._worker.loop.is_closed()

    def changed(self) -> None:
        self._soon(self._worker.changed)

    def due(self) -> None:
        self._soon(self._worker.claims.look)

    def dead(self, worker: str, gone: bool, evidence: str, *, dropped: bool = False) -> None:
        self._soon(self._worker.take_over, worker, gone, evidence, dropped)

    def slots(self) -> None:
        self._soon(self._timetable.look)

    def overdue(self, runs: Sequence[RunRow]) -> None:
        store = self._worker.store
        workers = [SeenWorker(row, row.state.value, None) for row in store.workers()]
        self._soon(expire_unbegun, self._worker, overdue_because(store, runs, workers))

    def silent_loop(self, seconds: float) -> None:
        if seconds:
            self._worker.silent_loop(seconds)
        else:
            self._soon(self._worker.answered)
