"""The wire is cut under every verb, at every request: what is answered is the truth, and done exactly once."""

from __future__ import annotations

import os
import secrets
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from outlast.core.errors import StoreUnavailable
from outlast.runtime.clock import SystemClock
from outlast.stores.course_verbs import Hold, Move
from outlast.stores.memory import MemoryStore
from outlast.stores.postgres import PostgresStore
from outlast.stores.protocol import RunFilter, Store
from outlast.stores.verbs import Answer, Done, Prune, Verb
from tests.conformance.world import SetClock, World, message, record, write
from tests.support.postgres import drop, empty_store_url, open_with_given_times, server_url, with_schema
from tests.support.scenes_of_verbs import (
    SCENES,
    Scene,
    content,
    running,
    starts,
    told,
    write_and_park,
    write_of_a_run_that_is_known,
    write_that_delivers_a_message,
)
from tests.support.wire import SILENT, Cut, Wire

IMPATIENT = {"answer_timeout": 0.15, "idle_timeout": 0.1, "statement_timeout": 0.15, "migration_timeout": 0.5}

RESTS = (b"S", b"Q", b"H")  # of the server's protocol, version 3: sync, a query in one message, flush
TCPI_DATA_SEGS_OUT = 156  # of Linux' struct tcp_info: a small send is one segment

COUNTING = {Prune, Hold, Move}  # tell what they have changed this time, which is less when they are sent again


class Patient(World):
    """Sends what is unavailable again, as the writer does."""

    def do(self, verb: Verb) -> Answer:
        (answer,) = self.transact([verb])
        return answer

    def transact(self, verbs: Sequence[Verb]) -> list[Answer]:
        while True:
            with suppress(StoreUnavailable):
                return self.store.transact(verbs)


class Play:
    """A scene at a store behind the wire, and at the reference, which nothing disturbs."""

    def __init__(self, wire: Wire, scene: Scene, flight: int, **options: float) -> None:
        self.flight = flight
        self.world = self._behind(wire, options)
        self.verbs = scene(self.world)
        self.before = self.content()
        clock = SetClock()
        self.reference = World(MemoryStore(clock), clock)
        self.expected = told(self.reference.store.transact(scene(self.reference)), self.reference)
        self.after = content(self.reference)

    def content(self) -> object:
        """Return all that the store tells; with limits this short a read may need a second try."""
        while True:
            with suppress(StoreUnavailable):
                return content(self.world)

    def _behind(self, wire: Wire, options: dict[str, float]) -> Patient:
        clock = SetClock()
        while True:
            with suppress(StoreUnavailable):
                return Patient(open_with_given_times(wire.url(empty_store_url(), **options), clock), clock)


def at_each_request(scene: Scene, cut: Cut, *, refuse: bool = False) -> Iterator[tuple[Wire, Play]]:
    """Play the scene for each request of its batch, the wire about to be cut there, until there is none left."""
    options = IMPATIENT if cut in SILENT else {}
    for flight in range(1, 50):
        with Wire.to(empty_store_url()) as wire:
            play = Play(wire, scene, flight, **options)
            wire.cut_at(cut, flight, refuse=refuse)
            try:
                yield wire, play
            finally:
                wire.heal()
                play.world.store.close()
            if not wire.struck.is_set():
                assert flight > 1
                return
    raise AssertionError("there is no end to it")


def check(play: Play, answers: list[Answer]) -> None:
    """Assert that a batch was done once, and that its answers say so, now and when it is sent again."""
    again = play.world.transact(play.verbs)
    if not COUNTING.intersection(map(type, play.verbs)):
        assert told(answers, play.world) == play.expected
        assert again == answers
    assert play.content() == play.after


@pytest.mark.parametrize("cut", [Cut.ANSWER_HALVED, Cut.ANSWER_SWALLOWED])
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_a_batch_that_is_cut_at_any_request_is_done_once_and_answered_truly(scene: Scene, cut: Cut) -> None:
    for wire, play in at_each_request(scene, cut):
        answers = play.world.transact(play.verbs)
        wire.heal()
        check(play, answers)


@pytest.mark.parametrize("cut", [Cut.REQUEST_LOST, Cut.ANSWER_LOST])
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_a_batch_that_cannot_be_asked_again_fails_clearly_with_all_or_nothing_done(scene: Scene, cut: Cut) -> None:
    for wire, play in at_each_request(scene, cut, refuse=True):
        try:
            answers = play.world.store.transact(play.verbs)
        except StoreUnavailable:
            assert wire.struck.is_set()
            wire.heal()
            assert play.content() in (play.before, play.after)
            answers = play.world.transact(play.verbs)
        wire.heal()
        check(play, answers)


@pytest.mark.parametrize("scene", [starts, write_and_park, write_of_a_run_that_is_known])
def test_a_request_that_is_swallowed_holds_nobody_up(scene: Scene) -> None:
    for wire, play in at_each_request(scene, Cut.REQUEST_SWALLOWED):
        answers = play.world.transact(play.verbs)
        wire.heal()
        check(play, answers)


READS: dict[str, Callable[[Store], object]] = {
    "load": lambda store: store.load([1]),
    "records": lambda store: store.records(1),
    "run": lambda store: store.run("run"),
    "runs": lambda store: store.runs(RunFilter()),
    "owned": lambda store: store.owned("w1"),
    "inbox": lambda store: store.inbox("w1"),
    "next_due": lambda store: store.next_due(["flow"]),
    "to_come": lambda store: store.to_come(["flow"]),
    "ended": lambda store: store.ended([1]),
    "workers": lambda store: store.workers(),
    "orphans": lambda store: store.orphans(),
    "survey": lambda store: store.survey(["flow"]),
    "info": lambda store: store.info().counts,
    "check": lambda store: store.check(),
}


def read_until_answered(read: str, play: Play) -> object:
    while True:
        with suppress(StoreUnavailable):
            return READS[read](play.world.store)


@pytest.mark.parametrize("read", READS)
def test_a_read_that_is_cut_at_any_request_tells_the_truth(read: str) -> None:
    for cut in (Cut.REQUEST_LOST, Cut.ANSWER_HALVED, Cut.ANSWER_SWALLOWED):
        for wire, play in at_each_request(write_that_delivers_a_message, cut):
            wire.heal()
            truth = read_until_answered(read, play)
            wire.cut_at(cut, play.flight)
            assert read_until_answered(read, play) == truth


@pytest.mark.parametrize("cut", [Cut.REQUEST_LOST, Cut.ANSWER_LOST, Cut.ANSWER_SWALLOWED])
def test_a_store_whose_making_is_cut_at_any_request_is_made_by_the_next(cut: Cut) -> None:
    for flight in range(1, 50):
        schema = f"test_{secrets.token_hex(6)}"
        with Wire.to(server_url()) as wire:
            wire.cut_at(cut, flight, new=True)
            url = wire.url(with_schema(schema), connect_timeout=2, **IMPATIENT)
            with suppress(StoreUnavailable):
                PostgresStore(url, SystemClock()).close()
            struck = wire.struck.is_set()
            wire.heal()
            store = PostgresStore(with_schema(schema), SystemClock())
            assert store.check() == []
            store.close()
        drop(schema)
        if not struck:
            return


def test_every_verb_has_a_scene() -> None:
    clock = SetClock()
    used = {type(verb) for scene in SCENES for verb in scene(World(MemoryStore(clock), clock))}
    assert set(Verb.__subclasses__()) <= used


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_a_request_leaves_in_one_piece_that_ends_where_the_limits_of_the_server_hold(scene: Scene) -> None:
    """So a process that is frozen at any place of it holds a lock no longer than its limits say."""
    with Wire.to(empty_store_url()) as wire:
        clock = SetClock()
        world = World(open_with_given_times(wire.url(empty_store_url()), clock), clock)
        verbs = scene(world)
        before, sends_before = wire.heard(), sends_to(wire.port)
        world.store.transact(verbs)
        after, sends = wire.heard(), sends_to(wire.port)
        world.store.close()
    new = {port: after[port][len(sent) :] for port, sent in before.items()}
    writer = max(new, key=lambda port: len(new[port]))  # others listen
    # The kernel may put two requests into one segment, where the second does not wait for the answer to the first.
    assert 0 < sends[writer] - sends_before[writer] <= requests_in(new[writer])


def sends_to(port: int) -> dict[int, int]:
    """Return how often each connection of this process to a port has sent something, by its own port."""
    found = {}
    for fd in Path("/proc/self/fd").iterdir():
        if not fd.is_socket():
            continue
        with suppress(OSError), socket.socket(fileno=os.dup(int(fd.name))) as end:
            if end.getpeername()[1:2] == (port,):
                info = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
                (found[end.getsockname()[1]],) = struct.unpack_from("I", info, TCPI_DATA_SEGS_OUT)
    return found


def requests_in(sent: bytes) -> int:
    """Return how many requests a client's messages are: each ends with one after which the server may rest."""
    count = at = 0
    while at < len(sent):
        count += sent[at : at + 1] in RESTS
        (length,) = struct.unpack_from("!I", sent, at + 1)
        at += 1 + length
    return count


def test_much_is_sent_whole_before_its_answer_is_waited_for() -> None:
    """More than fits into the buffers on the way, in a statement whose rows are wanted, and in one whose are not."""
    much = b"x" * 5_000_000
    with Wire.to(empty_store_url(), narrow=True) as wire:
        clock = SetClock()
        world = World(open_with_given_times(wire.url(empty_store_url(), answer_timeout=120), clock), clock)
        run = running(world)
        world.do(message(value=much))
        (row,) = world.store.inbox("w1")
        assert world.do(write(run, record(1, value=much), consumes=(row.id,))) == Done()
        assert [(r.value or b"") for r in world.store.records(run.pk)] == [much]
        world.store.close()
