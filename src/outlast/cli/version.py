"""`outlast version`."""

from __future__ import annotations

import platform

import apsw

from outlast import __version__
from outlast.cli.options import Json
from outlast.cli.output import print_json, print_line


def version(as_json: Json = False) -> None:
    """Print the versions of Outlast, Python and SQLite.

    \b
    outlast version
    outlast version --json
    """
    found = {"outlast": __version__, "python": platform.python_version(), "sqlite": apsw.sqlite_lib_version()}
    if as_json:
        print_json(found)
    else:
        print_line("\n".join(f"{name} {number}" for name, number in found.items()))
