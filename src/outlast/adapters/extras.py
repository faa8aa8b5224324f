"""What is said where a framework is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Have an import in the block that finds no framework name the extra that brings it.

    A module of Outlast that is missing is another fault, and is told as it is.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "outlast":
            raise
        raise ImportError(
            f"outlast.{extra} needs {error.name!r}, which is not installed: "
            f"pip install 'outlast[{extra.replace('_', '-')}]'",  # older releases of pip know no extra by an underscore
            name=error.name,
        ) from error
