"""The page on errors has every error that a user can meet, with what it derives from."""

from __future__ import annotations

import inspect

import outlast
from outlast.core import errors
from tests.docs.pages import DOCS, section_of, table_of, text_of

PAGE = DOCS / "errors.md"
SECTIONS = ("## Wrong use", "## Runs", "## Steps", "## Values", "## Stores")
INTERNAL = {"TurnOver", "RecordRefused", "Suspended"}  # between store and worker, and between worker and body


def _classes() -> dict[str, type[BaseException]]:
    """Return the errors of `core/errors.py`, in their order there."""
    found = vars(errors).items()
    return {name: value for name, value in found if inspect.isclass(value) and issubclass(value, BaseException)}


def test_the_page_has_every_error_in_the_order_of_the_code() -> None:
    rows = [row[0] for heading in SECTIONS for row in table_of(section_of(PAGE, heading))]
    assert rows == [f"`{name}`" for name in _classes() if name not in INTERNAL | {"OutlastError"}]
    assert "`OutlastError` is the root" in text_of(PAGE)


def test_every_error_of_the_page_is_public() -> None:
    assert {name for name in _classes() if name not in INTERNAL} <= set(outlast.__all__)


def test_every_error_says_when_and_what_to_do() -> None:
    for heading in SECTIONS:
        for row in table_of(section_of(PAGE, heading)):
            assert all(len(cell) > 5 for cell in row), row
