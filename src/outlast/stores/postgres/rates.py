"""Rates of steps on PostgreSQL: the turns that were given, and the next.

A rate's advisory lock is taken for as long as the transaction lasts; see `queues`. Who does not get it asks again.
"""

from __future__ import annotations

from outlast.stores import turns
from outlast.stores.postgres.arrays import Ints
from outlast.stores.postgres.batch import Batch
from outlast.stores.queue_verbs import Drawn, DrawRate
from outlast.stores.turns import RATE
from outlast.stores.verbs import Answer, Fenced, Refused

TRY_LOCK = "SELECT pg_try_advisory_xact_lock(hashtext('outlast rate ' || current_schema()), hashtext(%s))"


def draw_rate(b: Batch, verb: DrawRate) -> Answer:
    """Give a step's attempt its turn."""
    held = b.hold(verb.run, verb.worker, verb.claim)
    if isinstance(held, Fenced):
        return held
    for draw in sorted(verb.draws, key=lambda draw: draw.rate):
        if b.rows(TRY_LOCK, draw.rate) != [(True,)]:
            return Refused(f"somebody else just gets a turn in rate {draw.rate!r}")
    for draw in verb.draws:
        _forget_void(b, RATE + draw.rate, draw.window)
    taken_key = turns.taken_key(verb.key, verb.claim)
    mine = b.rows("SELECT at, id FROM uses WHERE key IN (%s, %s) AND key <> ''", verb.key, taken_key)
    at = turns.given([moment for moment, _ in mine], len(verb.draws), b.now, verb.slack)
    if at is None:
        b.run_sql("DELETE FROM uses WHERE id = ANY (%s) AND NOT taken", Ints(row[1] for row in mine))
        uses = {}
        for draw in verb.draws:
            rate = RATE + draw.rate
            b.run_sql("DELETE FROM uses WHERE rate = %s AND at <= %s", rate, b.now - 2 * draw.window)
            found = b.rows("SELECT at, amount, taken FROM uses WHERE rate = %s AND at > %s", rate, b.now - draw.window)
            # What was taken in a time that is to come was taken before somebody set the clock back.
            uses[rate] = [(min(moment, b.now) if taken else moment, amount) for moment, amount, taken in found]
        at = turns.turn_in_all(b.now, verb.draws, uses)
        for draw in verb.draws:
            b.run_sql(
                "INSERT INTO uses (rate, at, amount, key, taken) VALUES (%s, %s, %s, %s, false)",
                RATE + draw.rate,
                at,
                draw.amount,
                verb.key,
            )
    if at <= b.now:
        b.run_sql("UPDATE uses SET taken = true, key = %s WHERE key = %s AND key <> ''", taken_key, verb.key)
    return Drawn(at)


def _forget_void(b: Batch, rate: str, window: float) -> None:
    last: float | None = b.rows("SELECT max(at) FROM uses WHERE rate = %s AND at > %s AND taken", rate, b.now)[0][0]
    if (since := turns.given_before_set_back(b.now, window, last)) is not None:
        b.run_sql("DELETE FROM uses WHERE rate = %s AND at > %s AND NOT taken", rate, since)
