"""What every store decides alike: what can be kept at all, who holds a run, and the words of a refusal.

A value that one database takes and another refuses would make a program that
works on a laptop fail in the fleet, so the strictest rule holds everywhere:
text has no NUL and no lone surrogate, numbers are finite and fit 64 bits, and
what is indexed is short enough for an index entry.
"""

from __future__ import annotations

from enum import Enum
from math import isfinite
from typing import Any

import msgspec
from msgspec.structs import replace

from outlast.core.arguments import bad_text
from outlast.core.identity import MAX_IDENTITY_BYTES
from outlast.core.queues import KEY_MAX_BYTES
from outlast.core.records import ApprovalRow, Kind, Record, RunRow, Standing, WorkerState
from outlast.core.transitions import ENDED, Event, Status
from outlast.stores.approval_verbs import AnswerApproval, OpenApproval
from outlast.stores.checkpoint_verbs import CopyThread, PutCheckpoint, PutWrites
from outlast.stores.course_verbs import ContinueAs, Move
from outlast.stores.emitted import Settled, Value
from outlast.stores.time_verbs import PutSchedule, Tick
from outlast.stores.verbs import Failed, Finish, ForkRun, Refused, Resolve, Send, StartRun, Verb, Write

INDEXED_MAX_BYTES = MAX_IDENTITY_BYTES  # an index entry of the narrowest database takes about 2,700
INBOX_KINDS = frozenset({Kind.CHILD, Kind.CANCEL, Kind.MESSAGE})
DECISIONS = frozenset({"happened", "did_not_happen", "fail"})
END_EVENTS = {Status.SUCCEEDED: Event.SUCCEED, Status.FAILED: Event.FAIL, Status.CANCELLED: Event.CANCEL}
PARENT_ENDED = "parent ended"  # how a child was given up whose parent ended
CANCEL_ID = "cancel"  # the message id of a cancellation: one, however often it is asked for


# -- what can be kept --------------------------------------------------------


def objection(verb: Verb) -> Failed | Refused | None:
    """Answer a verb that no store can take, whatever it holds; None when it may be looked at."""
    if type(verb) is Write:  # by far the most frequent verb: no walk over its fields
        for record in verb.records:
            try:
                why = _bad_record(record)
            except (TypeError, AttributeError) as error:  # it must not take the rest of its batch down
                why = f"a field is of another type: {error}"
            if why:
                return Failed(f"record {record.seq} ({record.kind} {record.key!r}): {why}")
        return _bad_emit(verb) if verb.emits else None
    if why := _bad_value(verb) or _bad_size(verb):
        return Failed(why)
    match verb:
        case Finish() if verb.status not in ENDED:
            return Refused(f"a run cannot end as {verb.status}")
        case StartRun() if verb.claim_by is not None and verb.run.queue:
            return Refused(f"run {verb.run.id!r} is on queue {verb.run.queue!r} and cannot be claimed by its start")
        case Send() if verb.kind not in INBOX_KINDS:
            return Refused(f"an inbox takes no {verb.kind}")
        case Send(early=True) if verb.kind is not Kind.MESSAGE:
            return Refused(f"only a message can come before its run, no {verb.kind}")
        case AnswerApproval(status=Standing.OPEN):
            return Refused("an approval is not answered by leaving it open")
        case Resolve() if verb.decision not in DECISIONS:
            return Refused(f"no such decision: {verb.decision!r}; it is one of {', '.join(sorted(DECISIONS))}")
        case _:
            return None


def _bad_emit(verb: Write) -> Failed | None:
    for thing in verb.emits:
        why = _bad_value(thing)
        if not isinstance(thing, Settled):
            why = why or _too_long("name", thing.name)
        if why or (why := _too_long("source", "" if isinstance(thing, Value) else thing.source)):
            return Failed(why)
    return None


def _bad_size(verb: Verb) -> str | None:
    match verb:
        case StartRun(run=run) | ForkRun(run=run):
            if not run.id:
                return "the run id is empty"
            keys = {"queue": run.queue, "queue_key": run.queue_key, "dedup": run.dedup, "debounce": run.debounce}
            bad_keys = (_too_long(what, text, KEY_MAX_BYTES) for what, text in keys.items() if text)
            too_long = _too_long("run id", run.id) or _too_long("workflow name", run.workflow)
            return too_long or next(filter(None, bad_keys), None)
        case OpenApproval(approval=approval):
            return _too_long("approval's id", approval.id) or _too_long("identity", approval.key)
        case Send():
            return _too_long("run id", verb.id) or _too_long("message id", verb.message_id)
        case ContinueAs(workflow=name) | Move(to=name):
            return _too_long("workflow name", name)
        case PutSchedule(schedule=row):
            return _too_long("name of the schedule", row.name) or _too_long("workflow name", row.workflow)
        case PutCheckpoint(checkpoint=row):
            names = [
                f"{row.thread}{row.ns}{row.id}",
                *(f"{row.thread}{row.ns}{v.channel}{v.version}" for v in verb.values),
            ]
            return next((why for name in names if (why := _too_long("place of a checkpoint", name))), None)
        case PutWrites():
            return next((why for write in verb.writes if (why := _too_long("task's name", write.task))), None)
        case CopyThread():
            return _too_long("thread's id", verb.target)
        case Tick():
            return next((why for slot in verb.slots if (why := _too_long("run id", slot.run.id))), None)
        case _:
            return None


def _bad_record(record: Record) -> str | None:
    text = record.key + record.name + record.note + record.worker + record.effect
    if "\0" in text:
        return "text holds a NUL character"
    if not text.isascii() and (why := bad_text(text)):
        return why
    if not isfinite(record.at + record.started + record.ended + (record.due or 0.0)):
        return "a time is not a finite number"
    if (record.seq | record.attempt | record.cause) >> 63:
        return "a number is negative or too large"
    return None


def ended_as(status: Status) -> str:
    """Return how a run ended, as the rest of a sentence: `has failed`, `was cancelled`."""
    return f"{'was' if status is Status.CANCELLED else 'has'} {status.value}"


def keepable(text: str) -> str:
    """Return a text for people as every store can keep it: what it may quote is written out."""
    return text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()


def _bad_value(value: Any) -> str | None:
    match value:
        case None | bool() | bytes():
            return None
        case str():
            return None if value.isascii() and "\0" not in value else bad_text(value)
        case int():
            return None if -(2**63) <= value < 2**63 else "a number is too large"
        case float():
            return None if isfinite(value) else "a number is not finite"
        case tuple():
            return next((why for item in value if (why := _bad_value(item))), None)
        case msgspec.Struct():
            for name in value.__struct_fields__:
                if why := _bad_value(getattr(value, name)):
                    return f"{name}: {why}"
    return None


def _too_long(what: str, text: str, most_bytes: int = INDEXED_MAX_BYTES) -> str | None:
    size_bytes = len(text.encode())
    if size_bytes <= most_bytes:
        return None
    return f"the {what} has {size_bytes} bytes; the limit is {most_bytes}"


# -- leases and claims -------------------------------------------------------


class Hold(Enum):
    """What a worker's claim on a run is worth."""

    OWNED = "owned"
    PAST = "past"  # it was the last to claim the run, and has let go of it or lost it
    LOST = "lost"  # the run was never its own, or somebody claimed it since


def hold(status: Status | str, holder: str, claim: int, worker: str, asked: int) -> Hold:
    """Return what the claim `asked` of `worker` is worth on a run that `holder` claimed last, as number `claim`."""
    if holder != worker or claim != asked:
        return Hold.LOST
    return Hold.OWNED if status == Status.RUNNING else Hold.PAST


def is_queued(status: Status | str, claim: int, due: float, created: float) -> bool:
    """Tell whether a run only waits for a worker, and for no time: it was not put off when it was started.

    Its `due` was the present when it was set, so it may be claimed even where that seems to lie ahead, since somebody
    has set the clock back.
    """
    return status == Status.PENDING and (claim > 0 or due <= created)


def debounced(known: RunRow, verb: StartRun) -> RunRow | None:
    """Return the run that holds the `debounce` of a start as that start changes it; None where it has begun.

    The incarnation changes, too: sent again, the start finds itself, also after the run has begun.
    """
    run = verb.run
    if known.incarnation == run.incarnation:
        return known
    if known.started is not None or known.due is None:
        return None
    due = run.due if run.due is not None else known.due
    if verb.max_wait is not None:
        due = max(min(due, known.created + verb.max_wait), known.created)
    kept = {"id": known.id, "pk": known.pk, "created": known.created, "status": known.status, "held": known.held}
    return replace(run, **kept, due=due, claim=known.claim, started=None)


def lease_lost(worker: str, lease: tuple[str, str, float] | None, lease_now: float, boot: str) -> str | None:
    """Return why the worker may write nothing, None while its lease holds.

    `lease` is its row's (state, boot, lease_until). `boot` names this start of
    the machine: a lease given under another one cannot be compared with this
    clock, and its process is gone for certain.
    """
    if lease is None:
        return f"worker {worker} is not known here"
    state, lease_boot, lease_until = lease
    if state != WorkerState.ALIVE:
        return f"worker {worker} is {state}: its runs were taken over"
    if lease_boot != boot:
        return f"worker {worker} ran before the machine restarted"
    if lease_until <= lease_now:
        return f"the lease of worker {worker} ran out {lease_now - lease_until:.1f} s ago"
    return None


# -- words -------------------------------------------------------------------


def approval_box(id: str) -> str:
    """Return the name of the messages that answer an approval, which no message of users can have."""
    return f"!approval {id}"


def answer_id(id: str, ask: str) -> str:
    """Return the message id of an answer to an approval; one that is open again gets another."""
    return f"!answer {id} {ask}"


def as_it_stands(approval: ApprovalRow, now: float) -> ApprovalRow:
    """Return an approval as it stands now: one that is due has expired, though no worker may have said so yet."""
    overdue = approval.status is Standing.OPEN and approval.due is not None and approval.due <= now
    return replace(approval, status=Standing.EXPIRED) if overdue else approval


def cannot_answer(approval: ApprovalRow, answer: Standing, run_status: Status | str, now: float) -> str | None:
    """Say why an approval takes no answer, None where it takes this one."""
    if answer in (Standing.APPROVED, Standing.REJECTED):
        approval = as_it_stands(approval, now)
    if approval.status is not Standing.OPEN:
        who = f" by {approval.by}" if approval.by else ""
        was = "has expired" if approval.status is Standing.EXPIRED else f"was {approval.status.value} already"
        return f"approval {approval.id!r} {was}{who}"
    if run_status in ENDED:
        return f"approval {approval.id!r} is of no use any more: the run that asked {ended_as(Status(run_status))}"
    if answer is Standing.EXPIRED and (approval.due is None or approval.due > now):
        return f"approval {approval.id!r} is not due yet"
    return None


def cannot_terminate(run: RunRow, owner: str | None) -> str | None:
    """Say why a run cannot be ended by force by who saw it in the hands of `owner`, None where it can."""
    if run.status in ENDED:
        return f"run {run.id!r} {ended_as(run.status)}"
    return None if run.owner == owner else f"run {run.id!r} is owned by {run.owner} now"


def cannot_expire(run: RunRow, now: float) -> str | None:
    """Say why a run does not end by its deadline without having begun, None where it does."""
    overdue = run.deadline is not None and run.deadline <= now
    if run.status is Status.PENDING and run.started is None and overdue:
        return None
    return f"run {run.id!r} is {run.status}, and does not end by its deadline"


def ends_when_asked(run: RunRow) -> bool:
    """Tell whether a run that is asked to end has nothing to clean up: it was never begun, or is stuck."""
    unbegun = run.status is Status.PENDING and run.started is None and not run.forks
    return unbegun or run.status is Status.STUCK


def lost_claim(run: int, worker: str, claim: int) -> str:
    """Say that a claim is no longer valid."""
    return f"claim {claim} of worker {worker} on run {run} is no longer valid"


def out_of_step(seq: int, last_seq: int) -> str:
    """Say that a record does not follow the journal's last."""
    return f"record {seq} does not follow the journal's last, {last_seq}: an earlier one failed, or it was dropped"


def other_content(seq: int) -> str:
    """Say that a record's place in the journal is taken."""
    return f"record {seq} is there already and says something else"


def missing_record(last_seq: int, expected: int) -> str:
    """Say that a journal is not what the end of its run rests on."""
    return f"the journal ends with record {last_seq}, not with {expected}"


def parent_ended(parent_id: str) -> str:
    """Say who has asked a child to end whose parent has ended."""
    return f"the end of run {parent_id}"


def crash_loop(crashes: int) -> str:
    """Say why a run is stuck in a crash loop."""
    who = "1 worker" if crashes == 1 else f"{crashes} workers in a row"
    return f"{who} died under this run without a new record of it"


def terminated(by: str) -> str:
    """Say that a run was ended by force."""
    return f"cancelled by force by {by}" if by else "cancelled by force"


def prefix_end(prefix: str) -> str | None:
    """Return the first text after all that begin with `prefix`, in order of code points; None when there is none."""
    kept = prefix.rstrip("\U0010ffff")
    if not kept:
        return None
    last = ord(kept[-1]) + 1
    return kept[:-1] + chr(0xE000 if last == 0xD800 else last)  # no character lies in the surrogates' range
