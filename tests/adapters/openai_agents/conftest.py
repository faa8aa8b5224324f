"""What holds for all tests of this adapter."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from agents import set_tracing_disabled
from agents.run import set_default_agent_runner

from outlast.openai_agents import install


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    """Install the adapter for each test, with its own settings."""
    set_tracing_disabled(True)
    install()
    yield
    set_default_agent_runner(None)
