"""Processes for tests: born of a server that has loaded what they need and opened nothing."""

from __future__ import annotations

import multiprocessing

CLEAN = multiprocessing.get_context("forkserver")
CLEAN.set_forkserver_preload(["outlast.stores.sqlite", "tests.conformance.world"])
