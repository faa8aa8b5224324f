"""Streams under kills: every reader ends with each valid item once and in order, wherever it was cut off itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from outlast import StreamItem
from outlast.sync import App, Run
from tests.crash.conftest import MakeScene
from tests.crash.harness import tellers
from tests.crash.harness.fleet import Fleet
from tests.crash.harness.recorder import moments
from tests.crash.harness.scene import Process, Scene, Zygote
from tests.support.postgres import empty_store_url

SOURCES = ("body", "a", "b", "c", "d")


class Reader:
    """A reader in a thread of its own, that is cut off again and again; `seen` wakes who waits for it."""

    def __init__(self, app: App, run: str, *, final: bool, cut_off_after: int) -> None:
        self.has: list[StreamItem[Any]] = []
        self.most = 0  # so many it had at one time
        self.resets = 0
        self.error: BaseException | None = None
        self._run: Run[Any] = app.get(run)
        self._final, self._cut_off_after = final, cut_off_after
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        try:
            while self._read_a_little():
                pass
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error

    def _read_a_little(self) -> bool:
        """Read until it is cut off; False at the end."""
        after, left = self.has[-1].position if self.has else 0, self._cut_off_after
        for thing in self._run.stream("told", after=after, final=self._final):
            with self._news:
                if isinstance(thing, StreamItem):
                    self.has.append(thing)
                else:
                    self.resets += 1
                    self.has = [item for item in self.has if item.position <= thing.position]
                self.most = max(self.most, len(self.has))
                self._news.notify_all()
            left -= 1
            if not left:
                return True
        return False

    def has_had(self, items: int) -> None:
        """Wait until it has so many."""
        with self._news:
            assert self._news.wait_for(lambda: self.most >= items or self.error, 20), "no further items came"

    def values(self) -> list[str]:
        """Wait for its end; return what it ended with."""
        self._thread.join(20)
        assert not self._thread.is_alive(), "a reader hangs"
        assert self.error is None, self.error
        return [item.value for item in self.has]


def wrong_with(values: list[str], count: int) -> list[str]:
    """Return what is missing, twice there, or out of order."""
    counts = {"body": 3, "a": count, "b": count, "c": count, "d": 3}
    wrong = []
    for source in SOURCES:
        mine = [value for value in values if value.startswith(f"{source}.")]
        if mine != [f"{source}.{n}" for n in range(counts[source])]:
            wrong.append(f"{source}: {mine}")
    order = [value for value in values if value.startswith(("body", "d"))]
    if order != ["body.0", "body.1", "d.0", "d.1", "d.2", "body.2"]:
        wrong.append(f"in this order: {order}")
    return wrong


def follow(app: App, run: str) -> list[Reader]:
    """Start readers of each kind."""
    return [
        Reader(app, run, final=False, cut_off_after=0),
        Reader(app, run, final=False, cut_off_after=5),
        Reader(app, run, final=True, cut_off_after=0),
        Reader(app, run, final=True, cut_off_after=3),
    ]


def judged(readers: list[Reader], run: Run[Any], count: int) -> list[str]:
    """Return what any of them has wrong, those who come later too."""
    run.result(timeout=20)
    ends = [reader.values() for reader in readers]
    ends += [[item.value for item in run.stream("told") if isinstance(item, StreamItem)]]
    wrong = [w for values in ends for w in wrong_with(values, count)]
    wrong += [f"a final reader was told to drop {reader.resets} times" for reader in readers[2:] if reader.resets]
    if run.values() != {"a": count - 1, "b": count - 1, "d": 2, "body": "over"}:
        wrong.append(f"published: {run.values()}")
    return wrong


def killed(make_scene: MakeScene, at: str | None) -> tuple[Scene, list[str], Process]:
    """Run a teller whose worker is killed at a point, if it comes there; another goes on."""
    scene = make_scene(park_after=5.0)
    worker = scene.worker(recording=at is None, faults=[{"at": at}] if at else [])
    with scene.client() as app:
        run = app.start(tellers.teller("x", 15), id="teller-x")
        readers = follow(app, run.id)
        if at:
            scene.until("it dies or ends", lambda: worker.ended or run.status() == "succeeded")
            scene.worker("heir")
        wrong = judged(readers, run, 15)
    return scene, wrong, worker


def test_nothing_is_lost_and_nothing_doubled_wherever_the_writer_is_killed(make_scene: MakeScene) -> None:
    scene, wrong, recorder = killed(make_scene, None)
    names = [event.name for event in recorder.events("point")]
    scene.close()
    first = next(n for n, name in enumerate(names) if "teller-x" in name)
    points = [name for name in moments(names[first:]) if "read" not in name]
    points += [f"{side} Write items of teller-x#{n}" for side in ("inside", "after") for n in (2, 4, 7)]
    assert sum("items" in point for point in points) >= 6
    died = 0
    for point in points:
        scene, what, worker = killed(make_scene, point)
        died += worker.ended
        wrong += [f"killed {point}: {w}" for w in what]
        scene.close()
    assert wrong == []
    assert died >= len(points) / 2


@pytest.fixture(params=["sqlite", "postgres"])
def fleet(request: pytest.FixtureRequest, zygote: Zygote, tmp_path: Path) -> Iterator[Scene]:
    """Return a store with processes."""
    made: Callable[[], Scene] = lambda: Scene(zygote, tmp_path / "scene", park_after=5.0)  # noqa: E731
    if request.param == "postgres":
        url = empty_store_url()
        made = lambda: Fleet(zygote, tmp_path / "scene", url, park_after=5.0)  # noqa: E731
    with closing(made()) as scene:
        yield scene


def test_readers_in_other_processes_follow_through_a_series_of_takeovers(fleet: Scene) -> None:
    count = 1500
    with fleet.client() as app:
        run = app.start(tellers.teller("x", count), id="teller-x")
        readers = follow(app, run.id)
        for n in range(1, 6):
            worker = fleet.worker(f"victim-{n}")
            readers[0].has_had(n * 200)
            worker.kill()
        fleet.worker("heir")
        assert judged(readers, run, count) == []
        assert readers[0].resets >= 1
