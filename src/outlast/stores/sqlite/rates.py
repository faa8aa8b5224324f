"""Rates of steps on SQLite: the turns that were given, and the next."""

from __future__ import annotations

from outlast.stores import turns
from outlast.stores.queue_verbs import Drawn, DrawRate
from outlast.stores.sqlite.batch import Batch
from outlast.stores.turns import RATE
from outlast.stores.verbs import Answer, Fenced


def draw_rate(b: Batch, verb: DrawRate) -> Answer:
    """Give a step's attempt its turn."""
    held = b.hold(verb.run, verb.worker, verb.claim)
    if isinstance(held, Fenced):
        return held
    for draw in verb.draws:
        _forget_void(b, RATE + draw.rate, draw.window)
    taken_key = turns.taken_key(verb.key, verb.claim)
    mine = b.rows("SELECT at, id FROM uses WHERE key IN (?, ?) AND key <> ''", verb.key, taken_key)
    at = turns.given([moment for moment, _ in mine], len(verb.draws), b.now, verb.slack)
    if at is None:
        b.db.executemany("DELETE FROM uses WHERE id = ? AND NOT taken", [(row[1],) for row in mine])
        uses = {}
        for draw in verb.draws:
            rate = RATE + draw.rate
            b.db.execute("DELETE FROM uses WHERE rate = ? AND at <= ?", (rate, b.now - 2 * draw.window))
            found = b.rows("SELECT at, amount, taken FROM uses WHERE rate = ? AND at > ?", rate, b.now - draw.window)
            # What was taken in a time that is to come was taken before somebody set the clock back.
            uses[rate] = [(min(moment, b.now) if taken else moment, amount) for moment, amount, taken in found]
        at = turns.turn_in_all(b.now, verb.draws, uses)
        b.db.executemany(
            "INSERT INTO uses (rate, at, amount, key, taken) VALUES (?, ?, ?, ?, 0)",
            [(RATE + draw.rate, at, draw.amount, verb.key) for draw in verb.draws],
        )
    if at <= b.now:
        b.db.execute("UPDATE uses SET taken = 1, key = ? WHERE key = ? AND key <> ''", (taken_key, verb.key))
    return Drawn(at)


def _forget_void(b: Batch, rate: str, window: float) -> None:
    last: float | None = b.rows("SELECT max(at) FROM uses WHERE rate = ? AND at > ? AND taken", rate, b.now)[0][0]
    if (since := turns.given_before_set_back(b.now, window, last)) is not None:
        b.db.execute("DELETE FROM uses WHERE rate = ? AND at > ? AND NOT taken", (rate, since))
