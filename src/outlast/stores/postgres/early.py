"""Messages that come before their runs.

Who sends one and who starts the run may do so at the same moment, and neither sees what the other has not committed.
So the sender takes the place of the run's id for a moment, in the index that keeps ids apart: where a start is under
way there, it waits for its end and finds the run, and a start that comes later waits until the message is there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from outlast.stores.postgres.arrays import Texts
from outlast.stores.postgres.batch import Batch
from outlast.stores.verbs import Send

TAKE_PLACE = (
    "INSERT INTO runs (pk, id, incarnation, workflow, definition, is_step, options, status, due, parent_key, forks, "
    "created, python, version, input) VALUES (%s, %s, '', '', '', false, '{}', 'pending', 0, '', '[]', 0, '', '', '') "
    "ON CONFLICT (id) DO NOTHING RETURNING pk"
)
KEEP = (
    "INSERT INTO early (run_id, key, message_id, value, created) VALUES (%s, %s, %s, %s, %s) "
    "ON CONFLICT (run_id, message_id) DO NOTHING"
)
DELIVER = (
    "WITH early AS (DELETE FROM early WHERE run_id = ANY (%s) RETURNING *) "
    "INSERT INTO inbox (run, kind, key, message_id, ok, value, created) "
    "SELECT runs.pk, 'message', early.key, early.message_id, true, early.value, early.created "
    "FROM early JOIN runs ON runs.id = early.run_id ORDER BY early.id RETURNING run"
)


def keep_early(b: Batch, verb: Send) -> bool:
    """Keep a message for a run that is still to be started; False where it is there by now."""
    pk = -1 - int.from_bytes(os.urandom(7), "big")  # unlike that of any run, and of anybody who does this, too
    place = b.row(TAKE_PLACE, pk, verb.id)
    if place is None:
        return False
    b.run_sql("DELETE FROM runs WHERE pk = %s", place[0])
    b.run_sql(KEEP, verb.id, verb.key, verb.message_id, verb.value, b.now)
    return True


def ask_for_early(b: Batch, ids: Iterable[str]) -> Any:
    """Give runs that are new the messages that came before them; the rows say which (pk) had any."""
    return b.db.execute(DELIVER, (Texts(ids),), binary=True)
