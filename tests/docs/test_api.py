"""The API pages are what `docs/build_api.py` makes of the code as it is now."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import pytest

import outlast
from tests.docs.pages import DOCS


@pytest.fixture(scope="module")
def build_api() -> ModuleType:
    """Return the script as a module."""
    spec = importlib.util.spec_from_file_location("build_api", DOCS / "build_api.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_public_name_has_one_place(build_api: ModuleType) -> None:
    placed = [name for names in build_api.groups().values() for name in names]
    assert sorted(placed) == sorted(outlast.__all__)


def test_every_public_name_has_an_example(build_api: ModuleType) -> None:
    examples = build_api._examples()
    assert set(examples) == set(outlast.__all__)
    assert all("```python\n" in text for text in examples.values())


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="signatures are written otherwise by other Pythons")
def test_the_pages_are_current(build_api: ModuleType) -> None:
    made = build_api.pages()
    there = {path.name: path.read_text(encoding="utf-8") for path in (DOCS / "api").glob("[!_]*.md")}
    stale = sorted(name for name in made.keys() | there.keys() if made.get(name) != there.get(name))
    assert not stale, f"run `python docs/build_api.py` and commit what it writes: {', '.join(stale)}"


def test_a_page_has_each_way_to_call_a_function(build_api: ModuleType) -> None:
    pages = build_api.pages()
    assert "def receive(name: str, *, timeout: float | None = None) -> Call[Any]" in pages["receive.md"]
    assert "    form: type[T],\n" in pages["approve.md"]
    assert "def approve(\n    question: str,\n    *,\n    data: Any = None," in pages["approve.md"]


def test_what_a_decorator_makes_has_its_options_named(build_api: ModuleType) -> None:
    pages = build_api.pages()
    for name, option in (("workflow", "queue_key: str | None = ..."), ("workflow", "durability"), ("step", "rate")):
        assert option in pages[f"{name}.md"].partition("### options")[2]


def test_no_two_pages_differ_only_in_case(build_api: ModuleType) -> None:
    names = [name.lower() for name in build_api.pages()]
    assert len(set(names)) == len(names)
