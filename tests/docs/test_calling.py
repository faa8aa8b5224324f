"""The table of `docs/calling.md`: what each call does in each place is tried, and compared cell by cell."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import outlast
import outlast.sync
from outlast import App, WrongUse, step, workflow
from tests.docs.pages import DOCS, table_of, text_of

AnyApp = App | outlast.sync.App

PLACES = ("outside of any run", "in an async workflow", "in a sync workflow", "in a step")
executed: list[str | None] = []  # of each execution, the step that it was, None for a plain function


def _note() -> None:
    executed.append(outlast.current.step_id)


@step
async def async_step() -> None:
    _note()


@step
def sync_step() -> None:
    _note()


@step(effect="once")
async def once_step() -> None:
    _note()


@workflow
async def a_workflow() -> None:
    await async_step()


def a_function() -> None:
    _note()


def _start(app: AnyApp) -> Any:
    return app.start(async_step.call())


ROWS: dict[str, Callable[[AnyApp], Any]] = {
    "`async_step(...)`": lambda app: async_step(),
    "`sync_step(...)`": lambda app: sync_step(),
    "`sync_step.call(...)`": lambda app: sync_step.call(),
    "`once_step(...)`": lambda app: once_step(),
    "`outlast.call(fn, ...)`": lambda app: outlast.call(a_function),
    "`a_workflow(...)`": lambda app: a_workflow(),
    "`app.start(call)`": _start,
    "`step.fn(...)`, `workflow.fn(...)`": lambda app: sync_step.fn(),
}


class Trial:
    """Makes one call in each place, and says what it did in the words of the table."""

    def __init__(self, app: App, blocking_app: outlast.sync.App, call: Callable[[AnyApp], Any]) -> None:
        self.app = app
        self.blocking_app = blocking_app
        self.call = call
        self.outcome = ""

    async def in_place(self, place: str) -> str:
        """Return the word in bold that the table has to have."""
        executed.clear()
        self.outcome = ""
        if place == "outside of any run":
            await self._try()
            return self.outcome or self._word(runs_before=0, steps=())
        before = len(await self.app.runs())
        flow = {"in an async workflow": self._async_flow, "in a sync workflow": self._sync_flow}.get(place)
        run = await self.app.start((flow or self._step_flow)()())
        await run.result()
        mine = tuple(shown.id for shown in await run.steps() if shown.name != "outer")
        return self.outcome or self._word(runs_before=before + 1, steps=mine)

    def _word(self, *, runs_before: int, steps: tuple[str, ...]) -> str:
        if any("a_workflow" in each for each in steps):
            return "child run"
        if any(each in executed for each in steps):
            return "recorded"
        return "plain" if executed and executed[-1] in (None, "main/outer#1") else "a run"

    async def _try(self) -> None:
        try:
            value = self.call(self.app)
            if isinstance(value, Awaitable):
                value = await value
            if isinstance(value, outlast.Run):
                await value.result()
                self.outcome = "a run"
        except WrongUse:
            self.outcome = "`WrongUse`"

    def _async_flow(self) -> Any:
        @workflow(name="async_flow")
        async def flow() -> None:
            await self._try()

        return flow

    def _sync_flow(self) -> Any:
        @workflow(name="sync_flow")
        def flow() -> None:
            try:
                value = self.call(self.blocking_app)
                if isinstance(value, outlast.Call):
                    value.result()
                    is_child = value.definition is a_workflow
                    self.outcome = "child run" if is_child else "started"
            except WrongUse:
                self.outcome = "`WrongUse`"

        return flow

    def _step_flow(self) -> Any:
        @step(name="outer")
        async def outer() -> None:
            await self._try()

        @workflow(name="step_flow")
        async def flow() -> None:
            await outer()

        return flow


def _table() -> dict[str, list[str]]:
    rows = table_of(text_of(DOCS / "calling.md"))
    return {row[0]: [re.findall(r"\*\*(.+?)\*\*", cell)[0] for cell in row[1:]] for row in rows}


def test_the_table_has_the_rows_that_are_tried() -> None:
    assert list(_table()) == list(ROWS)


@pytest.mark.parametrize("row", ROWS)
def test_each_call_does_what_the_table_says(row: str) -> None:
    async def main() -> list[str]:
        async with App("memory://", grace=0.0) as app:
            trial = Trial(app, blocking_app, ROWS[row])
            return [await trial.in_place(place) for place in PLACES]

    with outlast.sync.App("memory://", worker=False) as blocking_app:
        assert asyncio.run(main()) == _table()[row]
