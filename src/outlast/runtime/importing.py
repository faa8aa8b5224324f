"""Code that a command imports must not open an App meanwhile: each command would start its runs once more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from outlast.core.errors import WrongUse

_imported: list[str] = []  # what commands are importing now, the innermost last


@contextmanager
def imported_for_its_workflows(name: str) -> Iterator[None]:
    """Refuse all Apps of this process while the code of this name is imported."""
    _imported.append(name)
    try:
        yield
    finally:
        _imported.remove(name)


def refuse_while_imported(what: str) -> None:
    """Raise WrongUse when an App is used by code that a command only imports."""
    if _imported:
        name = _imported[-1]
        raise WrongUse(
            f"{name} calls {what} while it is imported, and each `outlast` command that imports it would do so again, "
            'and start its runs again; put that under `if __name__ == "__main__":`'
        )
