"""What the unit tests share: the command line, in a folder of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.outlast_command import Outlast
from tests.unit.past import Past


@pytest.fixture
def command(tmp_path: Path) -> Outlast:
    """Return the command `outlast`, run in an empty folder with an agent. A file may put more code beside it."""
    return Outlast(tmp_path)


@pytest.fixture
def past(command: Outlast) -> Iterator[Past]:
    """Return what writes to the command's store as workers would have."""
    made = Past(command)
    yield made
    made.store.close()
