"""From one turn of a run to the next: its journal is emptied, and it goes on in memory as another call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.core.durabilities import of_options, with_durability
from outlast.core.errors import StoreError
from outlast.core.identity import derive
from outlast.core.turns import Continuation
from outlast.core.usage import with_budget
from outlast.runtime import registry
from outlast.stores.course_verbs import ContinueAs, Continued
from outlast.stores.verbs import Answer

if TYPE_CHECKING:
    from outlast.runtime.execution import Execution


def begin_next_turn(run: Execution, continues: Continuation) -> None:
    """Have the end of a turn committed, and begin the next.

    The new incarnation is derived from the old one and the turn's number: the same, should this be done again after a
    crash, and none that any key was ever derived from.
    """
    row, worker, engine, call = run.row, run.worker, run.engine, continues.call
    chosen = of_options(call.run_options)
    verb = ContinueAs(
        worker=worker.id,
        run=row.pk,
        claim=row.claim,
        last_seq=engine.last_seq,
        incarnation=derive(row.incarnation, "turn", str(row.turn + 1)),
        workflow=registry.run_name(call.definition),
        definition=call.definition.definition,
        input=continues.encoded,
        options=with_budget(
            row.options if chosen is of_options(row.options) else with_durability(row.options, chosen),
            usage=run.spending.ledger.carried() or None,
        ),
        at=max(worker.now(), engine.last_at),
    )

    def done(answer: Answer | StoreError) -> None:
        if isinstance(answer, Continued):
            worker.notices("run.continued", run=row.id, workflow=answer.run.workflow, turn=answer.run.turn)
            worker.claims.begin_turn(run, answer.run)
        elif not run.closed:
            worker.lost_run(run, answer)

    worker.writer.submit(verb, done)
