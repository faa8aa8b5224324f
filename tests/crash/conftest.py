"""The zygote of the session, and a scene for each test."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.crash.harness.recorder import RESTING, STAYING, record
from tests.crash.harness.scene import Scene, Zygote

MakeScene = Callable[..., Scene]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Show the figures of the storms."""
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        for name, value in report.user_properties:
            if name == "table" and report.when == "call":
                terminalreporter.write_line(f"{report.nodeid}\n{value}")


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    """The process that all others are forked from."""
    zygote = Zygote()
    yield zygote
    zygote.close()


@pytest.fixture
def make_scene(zygote: Zygote, tmp_path: Path) -> Iterator[MakeScene]:
    """Make scenes, each with a store of its own; their processes end with the test."""
    with ExitStack() as stack:
        made = []

        def make(**defaults: Any) -> Scene:
            scene = Scene(zygote, tmp_path / f"scene-{len(made) + 1}", **defaults)
            made.append(scene)
            stack.callback(scene.close)
            return scene

        yield make


@pytest.fixture
def scene(make_scene: MakeScene) -> Scene:
    """One scene."""
    return make_scene()


@pytest.fixture(scope="session")
def points(zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The points of a worker that keeps its runs in memory."""
    passed = record(zygote, tmp_path_factory.mktemp("staying"), **STAYING)
    return [p for p in passed if not re.search(r" (Leave|Beat|Claim#)", p)]  # these come by the clock, or at the end


@pytest.fixture(scope="session")
def resting_points(zygote: Zygote, tmp_path_factory: pytest.TempPathFactory, points: list[str]) -> list[str]:
    """The points that there are only when runs rest: parking, and being claimed again."""
    resting = record(zygote, tmp_path_factory.mktemp("resting"), **RESTING)
    return [p for p in resting if (p not in points and not re.search(r" (Leave|Beat)", p)) or " timer " in p]
