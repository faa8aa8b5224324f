"""The tests of an adapter run where its framework is installed: in the environment that `make test-adapters` makes."""

from __future__ import annotations

from tests.adapters.doors import ADAPTERS, is_installed

collect_ignore = [name for name in ADAPTERS if not is_installed(name)]
