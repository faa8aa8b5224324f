"""The ids of threads: one text for each, however a program spells it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from langchain_core.runnables import RunnableConfig

from outlast.core.errors import WrongUse
from outlast.core.identity import MAX_ID_LENGTH


def thread_of(config: RunnableConfig) -> str:
    """Return the id of the thread that a config is for. Raises WrongUse where it has none, or one that is none."""
    given = config.get("configurable", {}).get("thread_id")
    if given is None:
        raise WrongUse(
            "a checkpointer needs the id of a thread: pass config={'configurable': {'thread_id': ...}} to the graph"
        )
    return thread_key(given)


def thread_key(given: Any) -> str:
    """Return the one text under which a thread is kept.

    An int and a UUID are kept as the text that `str` makes of them, so that 42
    and "42" are one thread. A text is kept as it is: upper case and spaces
    tell threads apart. All else is refused with WrongUse, since two spellings of
    one id would split a thread in two.
    """
    match given:
        case bool():
            pass
        case int() | UUID():
            return str(given)
        case str():
            return _checked(str(given))
    raise WrongUse(f"the id of a thread is a str, an int or a UUID, not {type(given).__name__}: {given!r}")


def _checked(text: str) -> str:
    if not text:
        raise WrongUse("the id of a thread is empty")
    if len(text) > MAX_ID_LENGTH:  # as that of a run, whose thread bears its id
        raise WrongUse(f"the id of a thread has {len(text)} characters, and may have {MAX_ID_LENGTH}")
    if "\0" in text or any("\ud800" <= char <= "\udfff" for char in text):
        raise WrongUse(f"the id of a thread has a character that no database keeps: {text!r}")
    return text
