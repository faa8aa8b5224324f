"""The page on architecture names the files that there are."""

from __future__ import annotations

import re

from tests.docs.pages import DOCS, ROOT, text_of

PACKAGE = ROOT / "src" / "outlast"
PAGE = text_of(DOCS / "ARCHITECTURE.md")


def test_every_file_of_core_and_runtime_has_a_place() -> None:
    files = [path.name for folder in ("core", "runtime") for path in (PACKAGE / folder).glob("[!_]*.py")]
    assert sorted(name for name in files if f"`{name}`" not in PAGE and f"/{name}`" not in PAGE) == []


def test_every_file_that_is_named_exists() -> None:
    there = {path.name for path in PACKAGE.rglob("*.py")}
    assert sorted(set(re.findall(r"`(?:\w+/)*(\w+\.py)`", PAGE)) - there) == []


def test_every_decision_is_linked() -> None:
    assert all(f"decisions/{path.name}" in PAGE for path in (DOCS / "decisions").glob("*.md"))
