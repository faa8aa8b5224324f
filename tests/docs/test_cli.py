"""The page on the command line has every verb, option and exit code of `outlast --help`."""

from __future__ import annotations

import re

import pytest

from outlast.cli.exits import MEANINGS
from outlast.cli.verbs import VERBS, command_of
from outlast.core.records import WorkerState
from outlast.runtime.seen import SeenWorker
from tests.docs.pages import DOCS, section_of, table_of, text_of

PAGE = DOCS / "cli.md"


def test_the_page_lists_every_verb_with_the_words_of_the_help() -> None:
    rows = [[re.sub(r"[`\[\]]|\(.*\)", "", row[0]), row[1]] for row in table_of(text_of(PAGE))]
    assert rows == [[f"outlast {verb}", line] for verb, line in VERBS.items()]


def test_every_verb_has_a_section_in_the_order_of_the_help() -> None:
    assert re.findall(r"^## outlast (\w+)$", text_of(PAGE), re.MULTILINE) == list(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_the_section_of_a_verb_has_all_its_options_and_no_others(verb: str) -> None:
    section = section_of(PAGE, f"## outlast {verb}")
    options = set()
    for parameter in command_of(verb).params:
        if parameter.opts[0].startswith("-") and not getattr(parameter, "hidden", False):
            options |= set(parameter.opts)
    listed = "\n".join(line for line in section.splitlines() if line.startswith("- "))
    assert set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", listed)) == options - {"--help"}


@pytest.mark.parametrize("verb", VERBS)
def test_the_section_of_a_verb_has_an_example(verb: str) -> None:
    assert re.search(rf"^\$ outlast {verb}\b", section_of(PAGE, f"## outlast {verb}"), re.MULTILINE)


def test_the_table_of_states_has_each_that_a_worker_can_have() -> None:
    rows = table_of(section_of(PAGE, "## outlast doctor"))
    told = {row[0].strip("`") for row in rows}
    assert told == {*WorkerState, *re.findall(r"`(\w+)`", (SeenWorker.__doc__ or "").partition("is")[2].split(".")[0])}


def test_the_table_of_exit_codes_is_that_of_the_help() -> None:
    rows = table_of(section_of(PAGE, "## Exit codes"))
    assert rows == [[str(code.value), meaning] for code, meaning in MEANINGS.items()]
