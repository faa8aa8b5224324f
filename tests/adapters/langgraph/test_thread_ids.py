"""One thread has one id, however a program spells it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from outlast import WrongUse
from outlast.adapters.langgraph.threads import thread_key, thread_of

SOME = UUID("2f1a6f0e-8f4b-4b44-9f0d-5d6f5a4b7c11")


@pytest.mark.parametrize(("given", "kept"), [(42, "42"), ("42", "42"), (SOME, str(SOME)), ("A b", "A b"), (" a", " a")])
def test_a_thread_is_kept_under_one_text(given: Any, kept: str) -> None:
    assert thread_key(given) == kept


@pytest.mark.parametrize("given", [True, 4.2, b"42", None, ["42"], "", "a\0b", "a\ud800", "x" * 256])
def test_an_id_with_two_spellings_or_none_is_refused(given: Any) -> None:
    with pytest.raises(WrongUse, match="the id of a thread"):
        thread_key(given)


def test_a_config_without_a_thread_is_told_what_to_pass() -> None:
    with pytest.raises(WrongUse, match=r"config=\{'configurable': \{'thread_id'"):
        thread_of({"configurable": {}})
