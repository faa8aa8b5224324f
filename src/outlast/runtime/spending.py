"""What one run has used of models, and whether it may use more.

A budget is looked at before an attempt begins. What is refused is refused once and for all: the error is the recorded
outcome of its step, so that replay sees what the live run saw, whatever the budget is by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from outlast.core.effects import InStep
from outlast.core.errors import BudgetExceeded
from outlast.core.pending import Pending
from outlast.core.records import Record
from outlast.core.usage import GIVEN_UP, USAGE, ByModel, Ledger, add_to, fact_of

if TYPE_CHECKING:
    from outlast.runtime.execution import Execution


class Spending:
    """See the top of this file."""

    def __init__(self, run: Execution, records: Sequence[Record]) -> None:
        self._id = run.row.id
        self._prices = run.worker.prices
        self.ledger = Ledger(run.row, self._prices)
        self.ledger.read(records)
        self._given_up: ByModel = {}  # by attempts without a record, to be told by the next record
        if run.row.crashes:
            self.ledger.replayed()
            run.engine.replayed = True

    def facts_of(self, place: InStep) -> dict[str, Any]:
        """Return what the record of an attempt tells: what it was annotated with, and what it used."""
        facts = {name: fact for name, fact in place.annotations.items() if name[:1] != "!"}
        if place.used:
            facts[USAGE] = fact_of(place.used, self._prices)
        if self._given_up:
            facts[GIVEN_UP] = fact_of(self._given_up, self._prices)
            self._given_up = {}
        return facts

    def note_of_failure(self, place: InStep) -> str:
        """Return the note of an attempt that failed and is tried again."""
        facts = {name: fact for name, fact in self.facts_of(place).items() if name in (USAGE, GIVEN_UP)}
        return msgspec.json.encode(facts).decode() if facts else ""

    def given_up(self, place: InStep) -> None:
        """Keep what an attempt used that gets no record of its own."""
        for model, tokens in place.used.items():
            add_to(self._given_up, model, tokens)

    def refusal(self, pending: Pending) -> BudgetExceeded | None:
        """Return the error of a call that may not begin, since the run's budget is used up; None where it may."""
        ledger = self.ledger
        if ledger.max_tokens is None and ledger.max_cost is None:
            return None
        if not (pending.call.settings.spends or pending.name in ledger.names):
            return None
        spent, refused = ledger.counted, f"run {self._id}: step {pending.key} was not begun"
        more = f"outlast resume {self._id}"
        if ledger.max_tokens is not None and spent.total >= ledger.max_tokens:
            return BudgetExceeded(
                f"{refused}: the run has used {spent.total:,} tokens, and its max_tokens is {ledger.max_tokens:,}. To "
                f"let it go on, give it more: {more} --max-tokens N",
                spent=spent.total,
                limit=ledger.max_tokens,
            )
        if ledger.max_cost is None:
            return None
        if ledger.unpriced:
            names = ", ".join(sorted(repr(name) for name in ledger.unpriced))
            return BudgetExceeded(
                f"{refused}: what the run has spent is not known, since there is no price for the model {names}, and "
                f"its max_cost is {ledger.max_cost:g}. Give the workers one, App(prices={{...}}), and then: {more}",
                spent=spent.cost or 0.0,
                limit=ledger.max_cost,
            )
        if spent.cost is not None and spent.cost >= ledger.max_cost:
            return BudgetExceeded(
                f"{refused}: the run has spent {spent.cost:g}, and its max_cost is {ledger.max_cost:g}. To let it go "
                f"on, give it more: {more} --max-cost N",
                spent=spent.cost,
                limit=ledger.max_cost,
            )
        return None
