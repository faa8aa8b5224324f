"""One order of sets of strings in every worker.

Python gives strings other hashes in each process unless PYTHONHASHSEED says which, and a workflow that
iterates a set of strings would take another course after a takeover. It can only be set before Python starts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

SEED = "0"


def executes_runs(words: Sequence[str]) -> bool:
    """Tell whether a command line makes its process a worker."""
    verb = next((word for word in words if not word.startswith("-")), "")
    return verb == "worker" or (verb == "start" and "--here" in words)


def fix_hash_seed() -> None:
    """Start this very command again with a fixed hash seed, unless it has one. Does not return then."""
    if not sys.flags.hash_randomization:  # fixed by the environment already
        return
    if os.environ.get("PYTHONHASHSEED", "random") != "random":
        return  # set, and yet without effect: Python was told to ignore its environment (-E, -I)
    environment = {**os.environ, "PYTHONHASHSEED": SEED}
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)
