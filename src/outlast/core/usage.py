"""What a run has used of models: how its records say so, and how they are added up.

A step tells its tokens while it runs (`outlast.record_usage`); they are recorded with what its attempt comes to, as a
fact in the note of that record, so an attempt that failed has them, too. Four facts are Outlast's own:

- `USAGE`: what this attempt used, by model.
- `GIVEN_UP`: what attempts had used that were given up before, and so have no record of their own.
- `UNKNOWN`: this attempt called a model and succeeded, and has told nothing of what it used.
- `REPLAYED`: this is the first record since a worker had died under the run: all before it was told from the journal.

What a journal no longer has stands in the run's options: that of earlier turns, of records that a resume dropped, and,
in a fork, what the run had spent that it was copied from. So a sum is the same after a crash, a resume, a
`continue_as`, and in a fork.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from outlast.core.prices import DIGITS, Prices
from outlast.core.records import Kind, Record, RunRow

USAGE = "!usage"
GIVEN_UP = "!given up"
UNKNOWN = "!unknown"
REPLAYED = "!replayed"
OWN = (USAGE, GIVEN_UP, UNKNOWN, REPLAYED)
MARKED = frozenset({Kind.STEP, Kind.LATE, Kind.ATTEMPT, Kind.TIMER, Kind.CHILD})
"""Records whose note may say `REPLAYED`: it holds nothing else, or facts."""
OPTION = "usage"


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens, and what they cost.

    - `input`, `output`: how many went in and came out. `cached`: those of the input that came from a cache.
    - `calls`: how often `outlast.record_usage` was called.
    - `cost`: in the currency of your prices; None where no cost is known.
    """

    input: int = 0
    output: int = 0
    cached: int = 0
    calls: int = 0
    cost: float | None = None

    @property
    def total(self) -> int:
        """Input and output together."""
        return self.input + self.output

    def __add__(self, other: Tokens) -> Tokens:
        return self._with(other, 1)

    def __sub__(self, other: Tokens) -> Tokens:
        return self._with(other, -1)

    def _with(self, other: Tokens, sign: int) -> Tokens:
        cost = self.cost
        if other.cost is not None:
            cost = round((cost or 0.0) + sign * other.cost, DIGITS)
        return Tokens(
            self.input + sign * other.input,
            self.output + sign * other.output,
            self.cached + sign * other.cached,
            self.calls + sign * other.calls,
            cost,
        )


NOTHING = Tokens()
ByModel = dict[str, Tokens]


def add_to(by_model: ByModel, model: str, tokens: Tokens) -> None:
    """Count tokens of a model."""
    by_model[model] = by_model.get(model, NOTHING) + tokens


def total(by_model: ByModel) -> Tokens:
    """Return the sum over all models."""
    return sum(by_model.values(), NOTHING)


class Carried(msgspec.Struct):
    """What a run used of which its journal no longer has a record, as its options have it."""

    spent: dict[str, Tokens] = {}  # by model
    again: Tokens = NOTHING
    saved: Tokens = NOTHING
    copied: Tokens = NOTHING  # spent by the run that this one was forked from
    names: tuple[str, ...] = ()  # of steps that have used some
    unknown: dict[str, int] = {}  # calls that have told nothing, by the name of the step
    accepted: tuple[str, ...] = ()  # names of those of which a person has said that the run is to go on all the same


class Budget(msgspec.Struct):
    """What a run may use; None is no limit. As its options have it."""

    max_tokens: int | None = None
    max_cost: float | None = None
    usage: Carried = msgspec.field(default_factory=Carried)


def budget_of(options: str) -> Budget:
    """Return the limits in a run's options, and what they carry."""
    return Budget() if options == "{}" else msgspec.json.decode(options, type=Budget)


def with_budget(options: str, **changes: Any) -> str:
    """Return a run's options with these limits, and what they carry, changed; None leaves what there is."""
    given = {name: value for name, value in changes.items() if value is not None}
    if not given:
        return options
    return msgspec.json.encode(msgspec.json.decode(options) | given).decode()


class Ledger:
    """What one run has used, added up record by record. Copied records of a fork count as saved, not as spent."""

    def __init__(self, row: RunRow, prices: Prices) -> None:
        limits = budget_of(row.options)
        self.max_tokens, self.max_cost = limits.max_tokens, limits.max_cost
        carried = limits.usage
        self.spent: ByModel = dict(carried.spent)
        self.again, self.saved, self.copied = carried.again, carried.saved, carried.copied
        self.unpriced: set[str] = set()
        self.names: set[str] = set(carried.names)  # of steps that have used some
        self.unknown = Counter(carried.unknown)  # calls that have told nothing, copied ones too, by name
        self.accepted = set(carried.accepted)
        self._prices = prices
        self._upto = max((fork.upto for fork in row.forks), default=0)
        self.recorded = NOTHING  # by outcomes that stand in the journal
        for model, tokens in self.spent.items():
            if tokens.cost is None and tokens.total:
                self.unpriced.add(model)

    @property
    def counted(self) -> Tokens:
        """What counts for the budget."""
        return total(self.spent) + self.copied

    def read(self, records: Iterable[Record]) -> None:
        """Add what is recorded."""
        for record in records:
            facts = facts_of(record.note)
            if facts.get(REPLAYED) and record.seq > self._upto:
                self.replayed()
            self._add(record, facts)

    def add(self, record: Record) -> None:
        """Add what was recorded just now, in an execution that has counted its replay."""
        self._add(record, facts_of(record.note))

    def replayed(self) -> None:
        """All outcomes so far were told from the journal, where they would have been paid for again."""
        self.saved += self.recorded

    def _add(self, record: Record, facts: dict[str, Any]) -> None:
        copied = record.seq <= self._upto
        if facts.get(UNKNOWN):
            self.unknown[record.name] += 1
        for key in (USAGE, GIVEN_UP):
            for model, tokens in tokens_in(facts, key, self._prices):
                if tokens.cost is None and tokens.total:
                    self.unpriced.add(model)
                if copied:
                    self.copied += tokens
                else:
                    add_to(self.spent, model, tokens)
                if key == GIVEN_UP:
                    continue
                self.names.add(record.name)
                if record.kind is not Kind.ATTEMPT:
                    self.recorded += tokens
                    if copied:
                        self.saved += tokens
                elif not copied:
                    self.again += tokens

    def carried(self) -> dict[str, Any]:
        """Return all of it as options carry it."""
        return _plain(
            Carried(
                self.spent,
                self.again,
                self.saved,
                self.copied,
                tuple(sorted(self.names)),
                dict(self.unknown),
                tuple(sorted(self.accepted)),
            )
        )


def _plain(carried: Carried) -> dict[str, Any]:
    """Return what options carry: nothing for most runs."""
    some = {
        name: part for name in carried.__struct_fields__ if (part := getattr(carried, name)) not in ({}, (), NOTHING)
    }
    plain: dict[str, Any] = msgspec.to_builtins(some)
    return plain


def facts_of(note: str) -> dict[str, Any]:
    """Return the facts in a record's note that are Outlast's own; most records have none."""
    if not note.startswith('{"') or '"!' not in note:
        return {}
    try:
        facts = msgspec.json.decode(note)
    except msgspec.DecodeError:
        return {}
    return {name: fact for name, fact in facts.items() if name in OWN}


def priced(model: str, tokens: Tokens, prices: Prices) -> Tokens:
    """Return tokens with what they cost, where that is not said and there is a price."""
    price = prices.of(model) if tokens.cost is None else None
    if price is None:
        return tokens
    return tokens + Tokens(cost=price.cost(tokens.input, tokens.output, tokens.cached))


def tokens_in(facts: dict[str, Any], key: str, prices: Prices) -> list[tuple[str, Tokens]]:
    """Return the tokens that a fact tells, by model; what was recorded without a cost has that of now."""
    return [(model, priced(model, Tokens(*used), prices)) for model, used in facts.get(key, {}).items()]


def fact_of(used: ByModel, prices: Prices) -> dict[str, list[Any]]:
    """Return what a record tells of the tokens that an attempt has used, with what they cost at that time."""
    found = {model: priced(model, tokens, prices) for model, tokens in used.items()}
    return {model: [t.input, t.output, t.cached, t.calls, t.cost] for model, t in found.items()}


def marked_as_replayed(note: str) -> str | None:
    """Return a record's note with `REPLAYED`; None where it holds something else than facts."""
    if note and not note.startswith("{"):
        return None
    facts: dict[str, Any] = msgspec.json.decode(note) if note else {}
    return msgspec.json.encode(facts | {REPLAYED: True}).decode()


def shown_note(note: str) -> str:
    """Return a record's note without the facts that are Outlast's own and told elsewhere."""
    if not facts_of(note):
        return note
    facts = {name: fact for name, fact in msgspec.json.decode(note).items() if name not in OWN}
    return msgspec.json.format(msgspec.json.encode(facts), indent=0).decode() if facts else ""


# -- where a journal is cut --------------------------------------------------------------


def after_resume(
    row: RunRow, records: Iterable[Record], dropped: Iterable[int], prices: Prices, *, accepts: bool = False
) -> dict[str, Any]:
    """Return what the options carry of a run that is taken up again without some of its records.

    What these had used was spent, and is spent again. What is left counts as saved: it is told from the journal.
    `accepts`: the run is to go on though it is not known what some of its steps use.
    """
    everything, gone = Ledger(row, prices), set(dropped)
    records = list(records)
    everything.read(records)
    kept = Ledger(msgspec.structs.replace(row, options="{}"), prices)
    kept.read(record for record in records if record.seq not in gone)
    lost = total(everything.spent) - total(kept.spent) - total(budget_of(row.options).usage.spent)
    attempts = everything.again - kept.again - budget_of(row.options).usage.again
    spent = {model: tokens - kept.spent.get(model, NOTHING) for model, tokens in everything.spent.items()}
    return _plain(
        Carried(
            {model: tokens for model, tokens in spent.items() if tokens.calls},
            everything.again - kept.again + (lost - attempts),
            everything.saved - kept.saved + kept.recorded,
            everything.copied - kept.copied,
            tuple(sorted(everything.names)),
            dict(everything.unknown - kept.unknown),
            tuple(sorted(everything.accepted.union(everything.unknown if accepts else ()))),
        )
    )


def in_fork(options: str) -> dict[str, Any]:
    """Return what the options of a fork carry of the run that it is copied from."""
    carried = budget_of(options).usage
    copied = total(carried.spent) + carried.copied
    return _plain(Carried(copied=copied, names=carried.names, unknown=carried.unknown, accepted=carried.accepted))
