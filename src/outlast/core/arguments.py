"""The arguments of public calls: what each may be, checked before a store sees it and refused in one way.

A refusal names the call and the argument, shows what was given, and says what it takes:
`app.runs(limit='ten'): must be a whole number, at least 0`. What a database cannot keep in a text, a NUL or one half of
a surrogate pair, none of these texts may hold, so that no program fails on one store that works on another.
"""

from __future__ import annotations

from collections.abc import Collection
from math import inf
from typing import Any

from outlast.core.amounts import is_number, is_whole
from outlast.core.errors import WrongUse

LARGEST = 2**63 - 1
MAX_TEXT_BYTES = 100_000
"""Of a text that nobody looks for, such as a note."""
MAX_NAME_LENGTH = 255
MOST_SHOWN = 80


def wrong(call: str, name: str, value: object, takes: str) -> WrongUse:
    """Return the error that refuses an argument."""
    return WrongUse(f"{call}({name}={quoted(value)}): must be {takes}")


def quoted(value: object) -> str:
    """Return what was given, for an error."""
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."


def bad_text(text: str) -> str | None:
    """Return why no store can keep a text, None where all can."""
    if "\0" in text:
        return "text holds a NUL character"
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"text holds a lone surrogate at {error.start}"
    return None


def check_name(value: Any, use: str) -> str:
    """Return a name that can be put to this use, such as "name a stream"."""
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_NAME_LENGTH or not value.isprintable():
        raise WrongUse(f"{quoted(value)} cannot {use}: 1 to {MAX_NAME_LENGTH} printable characters")
    return value


def check_text(call: str, name: str, value: Any, most_bytes: int, *, empty: bool = True) -> str:
    """Return a text that every store can keep."""
    known = isinstance(value, str) and bad_text(value) is None and len(value.encode()) <= most_bytes
    if not known or not (value or empty):
        least = "" if empty else "not empty, "
        raise wrong(call, name, value, f"a str, {least}of at most {most_bytes} bytes, without NUL and lone surrogates")
    return str(value)


def check_kind(call: str, name: str, value: Any, kind: type, takes: str) -> None:
    """Refuse what is of another type."""
    if not isinstance(value, kind):
        raise wrong(call, name, value, takes)


def check_whole(call: str, name: str, value: Any, least: int = 0, most: int = LARGEST) -> int:
    """Return a whole number."""
    if not (is_whole(value) and least <= value <= most):
        raise wrong(call, name, value, f"a whole number, at least {least}{f' and at most {most}' * (most < LARGEST)}")
    return int(value)


def check_flag(call: str, name: str, value: Any) -> bool:
    """Return True or False."""
    if not isinstance(value, bool):
        raise wrong(call, name, value, "True or False")
    return value


def check_wait(call: str, name: str, value: Any) -> float:
    """Return how long is waited, in seconds: not at all, or for a while."""
    if not (is_number(value) and 0 <= value < inf):
        raise wrong(call, name, value, "a finite number of seconds, not negative")
    return float(value)


def check_choice(call: str, name: str, value: Any, choices: Collection[str]) -> str:
    """Return one of some words."""
    if not isinstance(value, str) or value not in choices:
        raise wrong(call, name, value, f"one of {', '.join(choices)}")
    return value
