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
from outlast.core.usage import GIVEN_UP, UNKNOWN, USAGE, ByModel, Ledger, add_to, fact_of

if TYPE_CHECKING:
    from outlast.runtime.execution import Execution


class Spending:
    """See the top of this file."""

    def __init__(self, run: Execution, records: Sequence[Record]) -> None:
        self._id = run.row.id
        self._prices = run.worker.prices
        self._notices = run.worker.notices
        self.ledger = Ledger(run.row, self._prices)
        self.ledger.read(records)
        self._given_up: ByModel = {}  # by attempts without a record, to be told by the next record
        if run.row.crashes:
            self.ledger.replayed()
            run.engine.replayed = True

    def add(self, record: Record) -> None:
        """Count what was recorded just now, and warn of the first call that has told nothing."""
        none_yet = not self.ledger.unknown
        self.ledger.add(record)
        if none_yet and self.ledger.unknown:
            self._notices("step.usage_unknown", run=self._id, step=record.key)

    def facts_of(self, place: InStep, *, spent: bool = False) -> dict[str, Any]:
        """Return what the record of an attempt tells: what it was annotated with, and what it used.

        `spent`: it called a model, and succeeded.
        """
        facts = {name: fact for name, fact in place.annotations.items() if name[:1] != "!"}
        if place.used:
            facts[USAGE] = fact_of(place.used, self._prices)
        elif spent and not place.free:
            facts[UNKNOWN] = True
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
        if ledger.unknown.keys() - ledger.accepted:
            return self._not_known(refused, more)
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

    def _not_known(self, refused: str, more: str) -> BudgetExceeded:
        """Return the error of a call that may not begin, since nobody can say whether the budget is used up."""
        ledger, spent = self.ledger, self.ledger.counted
        by_tokens = ledger.max_tokens is not None
        limit, option = (ledger.max_tokens, "--max-tokens") if by_tokens else (ledger.max_cost, "--max-cost")
        silent = sorted(ledger.unknown.keys() - ledger.accepted)
        calls = ", ".join(f"{name!r} ({ledger.unknown[name]:,})" for name in silent)
        return BudgetExceeded(
            f"{refused}: what the run has used is not known, since calls of the steps {calls} have told nothing of it, "
            f"and the run has a budget, {option[2:].replace('-', '_')}={limit:,}. Have the step call "
            "outlast.record_usage, or its client ask the provider (OpenAI's API tells no usage in a stream without "
            "stream_options={'include_usage': True}). To let this run go on, and such calls of these steps count for "
            f"nothing, give it a budget again: {more} {option} N",
            spent=spent.total if by_tokens else spent.cost or 0.0,
            limit=limit or 0,
        )
