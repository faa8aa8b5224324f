"""Every page does what it says: its blocks run in their order, and print what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.adapters.doors import ADAPTERS, page_of
from tests.docs.pages import ROOT, all_pages, blocks_of, text_of
from tests.docs.running import name_of, run_page

RUN = ("python", "console")
READ = ("", "text", "py", "output", "mermaid", "ini", "dockerfile", "toml", "sql", "json", "yaml")
EXAMPLES = ROOT / "docs" / "api" / "_examples.md"  # they run on the pages that are made of them
MOST_NOT_RUN = 8

ELSEWHERE = {EXAMPLES, *map(page_of, ADAPTERS)}  # those of adapters run beside their frameworks, in tests/adapters
PAGES = [
    page for page in all_pages() if page not in ELSEWHERE and any(block.language in RUN for block in blocks_of(page))
]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_blocks_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_page(page, tmp_path, monkeypatch)


def test_every_block_has_a_language_that_is_run_or_only_read() -> None:
    wrong = [b.place for page in all_pages() for b in blocks_of(page) if b.language not in RUN + READ]
    assert not wrong, f"languages that nothing runs: {wrong}"


def test_every_file_that_a_page_shows_is_used_by_a_command_on_it() -> None:
    unused = []
    for page in all_pages():
        blocks = blocks_of(page)
        typed = "\n".join(b.text for b in blocks if b.language in RUN and not b.file and not b.not_run)
        unused += [b.place for b in blocks if b.file and Path(b.file).stem not in typed]
    assert not unused, f"nothing runs these files: {unused}"


def test_few_blocks_are_not_run() -> None:
    left_out = [f"{b.place}: {b.not_run}" for page in all_pages() for b in blocks_of(page) if b.not_run]
    assert len(left_out) <= MOST_NOT_RUN, "\n".join(left_out)


def test_every_mark_of_a_block_that_is_not_run_stands_above_one() -> None:
    for page in all_pages():
        marks = text_of(page).count("<!-- not run")
        assert marks == sum(bool(block.not_run) for block in blocks_of(page)), name_of(page)
