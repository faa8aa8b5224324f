"""What people are asked before a tool is called: the call itself, in one line."""

from __future__ import annotations

import json
from typing import Any

MOST_CHARACTERS = 300
"""Of the arguments; the data of the approval has the whole of them."""


def call_in_words(tool: str, arguments: Any) -> str:
    """Return the call of a tool as people read it: `pay({"order": "56", "cents": 2500})`, cut where it is long.

    `arguments` are in JSON's types, or JSON already, as a model wrote it.
    """
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)
    cut = text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"
    return f"{tool}({cut})"
