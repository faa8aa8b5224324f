"""What the unit tests share: the command line, in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.outlast_command import Outlast


@pytest.fixture
def command(tmp_path: Path) -> Outlast:
    """Return the command `outlast`, run in an empty folder with an agent. A file may put more code beside it."""
    return Outlast(tmp_path)
