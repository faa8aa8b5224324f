"""The page on events has every notice that the runtime gives, with its data and its level."""

from __future__ import annotations

import ast
import logging
import re
from pathlib import Path

from outlast.runtime import notices
from tests.docs.pages import DOCS, ROOT, table_of, text_of

NAME = re.compile(r"(worker|run|step|call|loop|body|store|outbox|approval|schedule)\.[a-z_]+")


def _given() -> dict[str, set[str]]:
    """Return the notices that the runtime's code gives: each call with a notice's name, and its keywords."""
    given: dict[str, set[str]] = {}
    for path in sorted((ROOT / "src" / "outlast" / "runtime").glob("*.py")):
        for call in _calls(path):
            names = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
            name = next((name for name in names if NAME.fullmatch(name)), None)
            called = ast.unparse(call.func)
            if name is None or called.endswith("get") or called.startswith("check_") or called == "wrong":
                continue
            data = {keyword.arg for keyword in call.keywords if keyword.arg}
            if ast.unparse(call.func) == "self._leave":  # which adds the run
                data.add("run")
            if any(k.arg is None and re.match(r"told$|of_error\(", ast.unparse(k.value)) for k in call.keywords):
                data |= set(notices.of_error(None))
            given.setdefault(name, set()).update(data)
    return given


def _calls(path: Path) -> list[ast.Call]:
    return [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]


def _told() -> dict[str, list[str]]:
    return {row[0].strip("`"): row for row in table_of(text_of(DOCS / "events.md"))}


def test_the_page_has_every_notice_with_its_data() -> None:
    told = {name: set(re.findall(r"`(\w+)`", row[2])) for name, row in _told().items()}
    assert told == _given()


def test_the_page_has_the_level_of_every_notice() -> None:
    levels = {name: logging.getLevelName(notices._LEVELS.get(name, logging.DEBUG)) for name in _given()}
    assert {name: row[3] for name, row in _told().items()} == levels


def test_every_notice_with_a_level_exists() -> None:
    assert set(notices._LEVELS) <= set(_given())
