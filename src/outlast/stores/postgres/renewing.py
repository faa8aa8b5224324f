"""The beat of a worker that has nothing else to write, in one statement: an idle worker sends it for ever.

It renews the lease where the general way would, by a worker's row that is `alive`. Where there is none, nothing is
renewed, and the batch goes the general way to find out why.
"""

from __future__ import annotations

from collections.abc import Sequence

from outlast.stores.postgres.address import Address
from outlast.stores.postgres.connections import DURABLE, Link
from outlast.stores.postgres.times import Times
from outlast.stores.verbs import Answer, Beat, Beaten, Verb

RENEW = f"""
WITH settings AS MATERIALIZED (SELECT {DURABLE}, {{for_locks}})
UPDATE {{schema}}.workers SET beat = {{now}}, lease_until = {{lease_now}} + %s, session = %s
FROM settings WHERE id = %s AND state = 'alive' AND boot = %s RETURNING lease_until, {{lease_now}}
"""


def renew(link: Link, session: str, address: Address, times: Times, verbs: Sequence[Verb]) -> list[Answer] | None:
    """Commit a beat by itself, and answer it. None: the batch is another, or it has to go the general way."""
    if len(verbs) != 1 or not isinstance(verbs[0], Beat):
        return None
    beat = verbs[0]
    statement = RENEW.format(
        schema=address.quoted_schema,
        for_locks=address.limits.for_locks,
        now=times.wall_sql(),
        lease_now=times.lease_sql(),
    )
    asked = times.boot()
    values = (beat.lease_s, session, beat.worker, times.epoch())
    renewed = link.db.execute(statement, values, binary=True).fetchall()
    if not renewed:
        return None
    ((lease_until, lease_now),) = renewed
    times.heard(asked, lease_now)
    return [Beaten(lease_until)]
