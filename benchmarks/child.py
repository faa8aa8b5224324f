"""Run one function of this package in a process of its own: `python -m benchmarks.child MODULE:FUNCTION ARGUMENTS`.

ARGUMENTS is a JSON object. What the function returns is printed as one line of JSON, the last of the output.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import sys


def main() -> None:
    """Call the function that the command line names, and print what it returns."""
    place, arguments = sys.argv[1:]
    module, _, name = place.partition(":")
    result = getattr(importlib.import_module(module), name)(**json.loads(arguments))
    if inspect.isawaitable(result):
        result = asyncio.run(result)  # type: ignore[arg-type]
    print(json.dumps(result), flush=True)
    sys.stderr.flush()
    os._exit(0)  # a peer that leaves threads behind must not hold up the next repeat


if __name__ == "__main__":
    main()
