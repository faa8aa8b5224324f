"""The page on running workers has every setting of `App`, with its default."""

from __future__ import annotations

import inspect
import re

from outlast import App
from outlast.cli.verbs import command_of
from outlast.stores.postgres import schema as postgres
from outlast.stores.sqlite import schema as sqlite
from tests.docs.pages import DOCS, section_of, table_of

DEFAULTS_IN_WORDS = {
    "url": None,
    "codec": None,
    "on_event": (),
    "version": None,
    "outbox": None,
    "prices": None,
}  # the page says what they stand for


def _rows() -> list[list[str]]:
    return table_of(section_of(DOCS / "operations.md", "## Settings"))


def test_the_page_has_every_setting_with_its_default() -> None:
    settings = {name: p.default for name, p in inspect.signature(App).parameters.items()}
    told = {}
    for row in _rows():
        name = row[0].strip("`")
        number = re.fullmatch(r"([\d,.]+)(?: s)?", row[1])
        told[name] = DEFAULTS_IN_WORDS.get(name, row[1] == "`True`" if number is None else number[1].replace(",", ""))
    assert {name: str(value) for name, value in told.items()} == {
        name: f"{value:g}" if isinstance(value, float) else str(value) for name, value in settings.items()
    }


def test_the_page_on_postgresql_has_the_versions_of_the_tables() -> None:
    text = " ".join(section_of(DOCS / "postgresql.md", "## Upgrades").split())
    assert f"{len(postgres.MIGRATIONS)} on PostgreSQL and {len(sqlite.MIGRATIONS)} in a SQLite file" in text


def test_the_page_names_the_options_of_the_worker() -> None:
    told = {row[3].strip("`") for row in _rows() if row[3]}
    options = {parameter.opts[0] for parameter in command_of("worker").params if parameter.opts[0].startswith("--")}
    assert told == options - {"--verbose", "--json", "--help"}
