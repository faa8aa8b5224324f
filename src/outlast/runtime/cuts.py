"""What of a journal stays when its run is resumed or forked, and what stands against either.

Nothing here asks a store: `mending` acts on what is found here, and `outlast show` says it beforehand.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from outlast.core.certainty import may_have_happened
from outlast.core.deadlines import is_deadline
from outlast.core.errors import DecodingError, EncodingError, InDoubt, NotResumable
from outlast.core.identity import shown
from outlast.core.records import EVENTS, Effect, Fork, Kind, Record, RunRow
from outlast.core.sagas import is_compensation
from outlast.core.telling import error_line, name_and_text
from outlast.core.transitions import Status
from outlast.runtime.aftermath import Aftermath, aftermath, cause_of_end, is_effect, unheard_failures
from outlast.stores.rules import keepable

if TYPE_CHECKING:
    from outlast.codec import Codec

NO_PLACES = frozenset({Kind.CANCEL, Kind.PATCH})  # what no fork can begin at
NOTES_OF_CALLS = frozenset({Kind.ATTEMPT, Kind.INTENT, Kind.RESOLUTION, Kind.START, Kind.ASK})
MOST_LISTED = 8
MOST_NAMED = 3


# -- resume -------------------------------------------------------------------------------


def why_not_resumable(run: RunRow, cause: Record, effect: Record) -> str:
    """Say in plain words which effect stands against resuming."""
    if cause.kind is Kind.CANCEL:
        end, cleanup = "came to its deadline" if is_deadline(cause) else "was cancelled", "cleanup "
    else:
        end, cleanup = f"failed at {_noun(cause)} {shown(cause.key)}", ""
    did = "was started" if effect.kind in (Kind.CHILD, Kind.START) else "was recorded"
    return f"run {run.id} {end}, and {cleanup}{_noun(effect)} {shown(effect.key)} {did} after that"


def _noun(record: Record) -> str:
    nouns = {Kind.CHILD: "child", Kind.START: "child", Kind.ASK: "approval", Kind.MESSAGE: "message"}
    return nouns.get(record.kind, "step")


def new_course_at(cause: Record, effect: Record) -> str:
    """Return the step from which a run that cannot be resumed can be forked."""
    return cause.key or effect.key


def came_after(after: Aftermath) -> str:
    """Warn of a fork that begins where the run failed: it keeps what was undone since as if it still held."""
    effects = list(dict.fromkeys(shown(r.key) for r in after.came if is_effect(r)))
    if not effects:
        return ""
    named = ", ".join(effects[:MOST_NAMED]) + (f" and {len(effects) - MOST_NAMED} more" if effects[MOST_NAMED:] else "")
    return f"it keeps as done what was done before, and knows nothing of {named}: where that undid a step, name it"


def why_lost(run: RunRow, records: Sequence[Record]) -> str:
    """Return why an ended run cannot be resumed for what was recorded after its end's cause; nothing where it can."""
    cause = cause_of_end(run, records) if run.status in (Status.FAILED, Status.CANCELLED) else None
    obstacle = aftermath(cause, records).obstacle if cause is not None else None
    return why_not_resumable(run, cause, obstacle) if cause is not None and obstacle is not None else ""


def what_to_drop(run: RunRow, cause: Record, records: Sequence[Record]) -> tuple[int, ...]:
    """Return the seqs of the end's cause, and of what only came of it. Raises NotResumable where that cannot go."""
    after = aftermath(cause, records)
    if (obstacle := after.obstacle) is not None:
        would = (
            "leave an effect that the new course knows nothing of"
            if is_effect(obstacle)
            else "execute it again, since only the code could tell that it did not come of that"
        )
        raise NotResumable(
            f"{why_not_resumable(run, cause, obstacle)}; resuming would {would}. "
            f"Start a new course instead: {command_of(fork_words(run, records, new_course_at(cause, obstacle)))}"
            + (f" ({warning})" if cause.kind is not Kind.CANCEL and (warning := came_after(after)) else "")
        )
    unheard = unheard_failures(cause, records)
    dropped = {r.seq for r in (cause, *after.came, *unheard)}
    before = [r for r in records if r.key == cause.key and r.seq < cause.seq]
    if _open_again(cause, records) is None:
        dropped |= {r.seq for r in before}  # it gets all its attempts anew
    again = {r.key for r in unheard}
    dropped |= {r.seq for r in records if r.key in again and r.kind is Kind.ATTEMPT}
    return tuple(sorted(dropped))


def check_undone(run: RunRow, records: Sequence[Record]) -> None:
    """Raise NotResumable where a run that no step has failed undid what it had done: it cannot go on from there."""
    undone = next((r for r in records if is_compensation(r) and is_effect(r)), None)
    if undone is not None:
        raise NotResumable(
            f"run {run.id} failed, and what it had done was undone: {_noun(undone)} {shown(undone.key)} was recorded "
            f"after that. Start a new course instead: {command_of(fork_words(run, records, undone.key))}"
        )


def _open_again(cause: Record, records: Sequence[Record]) -> Record | None:
    """Return the intent that is open again without this outcome: that of a `once` step that may have happened."""
    if cause.effect != Effect.ONCE.value or not may_have_happened(cause):
        return None
    before = (r for r in reversed(records) if r.key == cause.key and r.seq < cause.seq)
    return next((r for r in before if r.kind is Kind.INTENT), None)


def in_doubt_again(cause: Record, records: Sequence[Record], codec: Codec) -> Record | None:
    """Return what takes the place of a dropped outcome: its intent once more, which says why nothing is certain.

    A person decides anew; what was decided before stays in the journal, before that intent.
    """
    intent = _open_again(cause, records)
    if intent is None:
        return None
    error = codec.decode_error(cause.value or b"")
    decided = [
        r for r in records if r.key == cause.key and intent.seq < r.seq < cause.seq and r.kind is Kind.RESOLUTION
    ]
    if isinstance(error, InDoubt) and decided:
        by = f" by {decided[-1].worker}" if decided[-1].worker else ""
        why = f"it was decided to fail{by}, and then its run was resumed"
    elif isinstance(error, EncodingError | DecodingError):
        why = f"its result could not be stored: {name_and_text(error)[1]}"
    else:
        why = f"it ended with {error_line(error)}"
    begun = intent.started or intent.at
    return replace(intent, seq=cause.seq, at=cause.at, started=begun, note=keepable(why))


def children_first(
    cause: Record | None, drop: Sequence[int], records: Sequence[Record], children: Sequence[RunRow]
) -> list[RunRow]:
    """Return the children by which a run would end the same way again, were it resumed before them.

    Those are the ones whose failure is forgotten, and those that were cancelled, with it or since, before it heard so.
    """
    heard = {r.key for r in records if r.kind in (Kind.CHILD, Kind.LATE) and r.seq not in drop}
    told = {r.key for r in records if r.kind in (Kind.CHILD, Kind.LATE) and r.seq in drop}
    since = cause.at if cause is not None else 0.0
    return [
        child
        for child in children
        if (child.status in (Status.FAILED, Status.CANCELLED) and child.parent_key in told)
        or (child.status is Status.CANCELLED and child.parent_key not in heard and (child.ended or 0.0) >= since)
    ]


# -- fork ---------------------------------------------------------------------------------


class ForkPlan(msgspec.Struct, frozen=True):
    """A fork at a step: what it keeps, and the first `once` step or child that the original began and it would redo."""

    at: str
    keep: tuple[int, ...]
    again: Record | None


def fork_words(run: RunRow, records: Sequence[Record], step: str) -> list[str]:
    """Return the words of the `outlast fork` that starts a new course from before a step, and is not refused."""
    wanted = ["--repeat-once"] if plan_fork(run, records, step).again is not None else []
    return ["fork", run.id, step, *wanted]


def command_of(words: Sequence[str]) -> str:
    """Return an `outlast` command as an error quotes it."""
    return shlex.join(["outlast", *words])


def plan_fork(run: RunRow, records: Sequence[Record], step: str) -> ForkPlan:
    """Find what a fork at a step keeps. Raises NotResumable that says what a run can be forked at."""
    first = _place(records, step)
    if first is None:
        raise NotResumable(f"run {run.id} has recorded no step {step!r}{_places(records)}")
    outcome = next((r for r in records if r.key == first.key and r.kind in EVENTS), None)
    cut = outcome.seq if outcome is not None else first.seq
    cut = min([cut, *(r.seq for r in records if r.kind is Kind.CANCEL)])  # a fork is never cancelled from the start
    kept = _before(records, cut)
    left = [r for r in records if r.seq not in kept]
    again = next((r for r in left if r.effect == Effect.ONCE.value or r.kind is Kind.START), None)
    return ForkPlan(first.key, tuple(sorted(kept)), again)


def _place(records: Sequence[Record], step: str) -> Record | None:
    """Return the first record of a step: by its identity, as `outlast show` has it, or by its bare name."""
    places = [r for r in records if r.kind not in NO_PLACES]
    return (
        next((r for r in places if r.key == step), None)
        or next((r for r in places if shown(r.key) == step), None)
        or next((r for r in places if r.name == step), None)
    )


def _places(records: Sequence[Record]) -> str:
    """Say what a run can be forked at."""
    found = list(dict.fromkeys(shown(r.key) for r in records if r.kind not in NO_PLACES))
    if not found:
        return ": it has no record that a fork could keep or leave; start a run anew"
    more = f" and {len(found) - MOST_LISTED} more" if len(found) > MOST_LISTED else ""
    return f"; it can be forked at what it has recorded: {', '.join(found[:MOST_LISTED])}{more}"


def stretches(run: RunRow, upto: int) -> tuple[Fork, ...]:
    """Say which incarnation each stretch of a journal copied up to `upto` comes from; own forks come first."""
    found = [Fork(upto=min(f.upto, upto), incarnation=f.incarnation, began=f.began) for f in run.forks]
    if not found or found[-1].upto < upto:
        found.append(Fork(upto=upto, incarnation=run.incarnation, began=run.began))
    return tuple(found)


def _before(records: Sequence[Record], cut: int) -> set[int]:
    """Return the seqs below `cut` of events, patches, and the notes that belong to kept outcomes."""
    events = [r for r in records if r.seq < cut and (r.kind in EVENTS or r.kind in (Kind.PATCH, Kind.LATE))]
    done = {r.key for r in events}
    notes = [r for r in records if r.seq < cut and r.kind in NOTES_OF_CALLS and r.key in done]
    return {r.seq for r in (*events, *notes)}
