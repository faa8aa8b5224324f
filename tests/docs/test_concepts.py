"""The page on concepts says of statuses and reasons what the table of transitions has."""

from __future__ import annotations

from outlast.core.transitions import TABLE, Event, Reason, Status
from tests.docs.pages import DOCS, blocks_of, section_of, table_of

PAGE = DOCS / "concepts.md"


def diagram() -> str:
    """Return the diagram of statuses, in mermaid's language: one arrow for each two statuses, with its events."""
    arrows: dict[tuple[Status, Status], list[Event]] = {}
    for (status, event), after in TABLE.items():
        if status is not after:
            arrows.setdefault((status, after), []).append(event)
    lines = ["stateDiagram-v2", "    [*] --> pending: start"]
    lines += [f"    {a} --> {b}: {', '.join(e.value for e in events)}" for (a, b), events in arrows.items()]
    lines.append(f"    {Status.SUCCEEDED} --> [*]")
    return "\n".join(lines) + "\n"


def test_the_diagram_of_statuses_is_the_table_of_transitions() -> None:
    drawn = [block.text for block in blocks_of(PAGE) if block.language == "mermaid"]
    assert drawn == [diagram()], f"put this into docs/concepts.md:\n{diagram()}"


def test_an_event_that_is_not_drawn_changes_no_status() -> None:
    assert {event for (status, event), after in TABLE.items() if status is after} == {Event.WAKE}


def test_every_status_and_every_reason_is_explained() -> None:
    text = section_of(PAGE, "## Statuses")
    assert [row[0] for row in table_of(text)] == [f"`{status}`" for status in Status]
    reasons = table_of(text.partition("A run that is `stuck`")[2])
    assert [row[0] for row in reasons] == [f"`{reason}`" for reason in Reason]
