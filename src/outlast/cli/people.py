"""Who types a command."""

from __future__ import annotations

import getpass


def this_user() -> str:
    """Return the name of the user of this process, "" where it has none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""
