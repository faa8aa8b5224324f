"""What runs have used of models: how a step tells it, and what is told of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from outlast.core.amounts import is_number, is_whole
from outlast.core.arguments import MAX_TEXT_BYTES, check_text, wrong
from outlast.core.effects import InStep
from outlast.core.identity import here
from outlast.core.lost import refuse_lost
from outlast.core.prices import Prices
from outlast.core.records import RunRow
from outlast.core.usage import NOTHING, ByModel, Ledger, Tokens, add_to, total
from outlast.runtime.operations import step_here
from outlast.stores.protocol import RunFilter

if TYPE_CHECKING:
    from outlast.stores.protocol import Store

PAGE = 500


@dataclass(frozen=True, slots=True)
class Usage:
    """What a run has used of models, as its steps told by `outlast.record_usage`.

    - `spent`: all of it, `Tokens`, in all turns, attempts that failed included.
    - `again`: what of that was spent in vain, by attempts that failed and were tried again.
    - `saved`: what recorded outcomes had used, each time that the run was taken over after a crash, or resumed; and in
      a fork, those that were copied.
    - `models`: `spent`, by model.
    - `unpriced`: models of which no cost is known.
    - `unknown`: how many calls of models have succeeded and told nothing of what they used, by the names of their
      steps (those with `spends=True`); in a fork, those that were copied, too.
    - `max_tokens`, `max_cost`: the run's budget; `copied` counts for it, too: what the run had spent that a fork was
      made of.
    - `runs`: of how many runs this is.
    """

    spent: Tokens
    again: Tokens
    saved: Tokens
    models: dict[str, Tokens]
    unpriced: tuple[str, ...] = ()
    unknown: dict[str, int] = field(default_factory=dict)
    max_tokens: int | None = None
    max_cost: float | None = None
    copied: Tokens = NOTHING
    runs: int = 1


def record_usage(
    *, model: str = "", input_tokens: int = 0, output_tokens: int = 0, cached_tokens: int = 0, cost: float | None = None
) -> None:
    """Say in a step what a call of a model used: it is recorded with this attempt, also when that fails.

    `cached_tokens` are those of the input that came from the provider's cache, and are counted in `input_tokens`.
    `cost` is by default what `App(prices=...)` of the worker says. What several calls in one attempt tell adds up.
    Outside of any run it does nothing. Raises WrongUse in a workflow body, and for what is no number of tokens.
    """
    counts = {"input_tokens": input_tokens, "output_tokens": output_tokens, "cached_tokens": cached_tokens}
    for name, count in counts.items():
        if not (is_whole(count) and 0 <= count < 2**53):
            raise wrong("outlast.record_usage", name, count, "a whole number, at least 0")
    if cached_tokens > input_tokens:
        raise wrong(
            "outlast.record_usage", "cached_tokens", cached_tokens,
            f"a part of input_tokens, which is {input_tokens:,}; where a provider counts them apart, add them to it",
        )  # fmt: skip
    if cost is not None and not (is_number(cost) and 0 <= cost < inf):
        raise wrong("outlast.record_usage", "cost", cost, "a finite number, not negative")
    check_text("outlast.record_usage", "model", model, MAX_TEXT_BYTES)
    place = here.get()
    if place is None:
        refuse_lost("outlast.record_usage()")
        return
    used = step_here("record_usage()").used
    paid = None if cost is None else float(cost)
    add_to(used, model, Tokens(int(input_tokens), int(output_tokens), int(cached_tokens), 1, paid))


def spent_nothing() -> None:
    """Say in a step that calls models that none has answered, so that there is nothing to tell. For adapters."""
    place = here.get()
    if isinstance(place, InStep):
        place.free = True


def usage_of(store: Store, row: RunRow, prices: Prices, children: bool) -> Usage:
    """Add up what a run has used, as its store has it now, and if wanted its children."""
    ledgers = [_ledger(store, each, prices) for each in (_family(store, row) if children else [row])]
    models: ByModel = {}
    for ledger in ledgers:
        for model, tokens in ledger.spent.items():
            add_to(models, model, tokens)
    return Usage(
        spent=total(models),
        again=sum((ledger.again for ledger in ledgers), NOTHING),
        saved=sum((ledger.saved for ledger in ledgers), NOTHING),
        models=models,
        unpriced=tuple(sorted(set[str]().union(*(ledger.unpriced for ledger in ledgers)))),
        unknown=dict(sorted(sum((ledger.unknown for ledger in ledgers), Counter[str]()).items())),
        max_tokens=ledgers[0].max_tokens,
        max_cost=ledgers[0].max_cost,
        copied=ledgers[0].copied,
        runs=len(ledgers),
    )


def _ledger(store: Store, row: RunRow, prices: Prices) -> Ledger:
    try:
        ledger = Ledger(row, prices)
    except msgspec.MsgspecError:  # somebody has spoiled its options, and its records can be read all the same
        ledger = Ledger(replace(row, options="{}"), prices)
    ledger.read(store.records(row.pk))
    return ledger


def _family(store: Store, row: RunRow) -> Iterator[RunRow]:
    """Yield a run, its children, and theirs."""
    yield row
    before: int | None = None
    while page := store.runs(RunFilter(parent=row.pk), limit=PAGE, before=before):
        for child in page:
            yield from _family(store, child)
        before = page[-1].pk
