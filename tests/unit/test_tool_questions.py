"""What people are asked before an adapter calls a tool is the call itself, in one line of a sane length."""

from __future__ import annotations

from outlast.adapters.questions import MOST_CHARACTERS, call_in_words


def test_a_call_is_written_with_its_arguments_as_json() -> None:
    assert call_in_words("pay", {"order": "ä", "cents": 2500}) == 'pay({"order": "ä", "cents": 2500})'
    assert call_in_words("pay", '{"cents": 1}') == 'pay({"cents": 1})'
    assert call_in_words("pay", {"when": object}).startswith('pay({"when": ')


def test_a_long_call_is_cut() -> None:
    said = call_in_words("mail", {"text": "x" * 100_000})
    assert said.startswith('mail({"text": "xxx')
    assert said.endswith("x…)")
    assert len(said) == MOST_CHARACTERS + len("mail()")
