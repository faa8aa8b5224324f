"""The rows of a run: what a store keeps and what replay reads.

A **journal** is the list of a run's `Record`s in order of `seq`, without
gaps or repeats. Records of kind `step`, `timer`, `child`, `message` and
`cancel` are **events**: each was delivered to the workflow body at `at`, in
this order, and replay delivers them again. All other kinds are notes beside
the events: they say what became of an attempt, and the body never sees them.

Values are bytes that a codec made; nothing here knows what is in them. All
times are seconds since the epoch by the store's clock unless a name says
otherwise. This module is the whole vocabulary between core, stores and
runtime. Rows hold nothing that could lead back to them, so the garbage
collector need not look at them (`gc=False`): there are very many.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from outlast.core.queues import Limits
from outlast.core.transitions import Reason, Status


class Effect(StrEnum):
    """What a step does to the world; see the guarantees page."""

    PURE = "pure"
    IDEMPOTENT = "idempotent"
    ONCE = "once"


class Kind(StrEnum):
    """What a record says."""

    # events, delivered to the body in order
    STEP = "step"  # a step's final outcome
    TIMER = "timer"  # a timer fired; `due` is its deadline
    CHILD = "child"  # a child run ended
    MESSAGE = "message"  # a message was taken
    CANCEL = "cancel"  # cancellation was asked for
    # notes
    START = "start"  # a child run is started
    ASK = "ask"  # people are asked for an approval
    LATE = "late"  # the outcome of a step that nobody waited for any more
    ATTEMPT = "attempt"  # an attempt failed; `due` is when the next one may start
    INTENT = "intent"  # a `once` attempt may have started; `due` is its deadline
    RESOLUTION = "resolution"  # a person decided an attempt in doubt
    PATCH = "patch"  # `patched(key)` answered True


EVENTS = frozenset({Kind.STEP, Kind.TIMER, Kind.CHILD, Kind.MESSAGE, Kind.CANCEL})


class Record(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One entry of a journal.

    `key` is the identity of what it speaks of (`branch/name#n`). `args` are
    the encoded arguments, or `#` and their digest when they are long. `value`
    is the encoded result, or the encoded error when `ok` is false. `cause` is
    the `seq` of the event in whose drain the call or timer was issued.
    """

    seq: int
    kind: Kind
    key: str
    at: float
    name: str = ""
    ok: bool = True
    args: bytes | None = None
    value: bytes | None = None
    attempt: int = 0
    effect: str = ""
    started: float = 0.0
    ended: float = 0.0
    due: float | None = None
    cause: int = 0
    worker: str = ""
    note: str = ""  # decision of a resolution, reason of an attempt, annotations: short text or JSON


class Fork(msgspec.Struct, frozen=True, gc=False):
    """A stretch of a journal, up to and with `upto`, that was copied from a run with `incarnation`.

    `began` is the time of that run's first drain. Only a fork's first stretch needs it.
    """

    upto: int
    incarnation: str
    began: float = 0.0


class RunRow(msgspec.Struct, kw_only=True, gc=False):
    """One run as its store keeps it.

    `incarnation` is random and new for each run, also when an id is used
    again. `claim` counts claims and fences writes together with `owner`.
    `due` is when the run may be claimed; None while it is owned, ended, stuck,
    or waits for something that has no time. `input` holds the encoded
    arguments; `result` the encoded value of a run that succeeded, `error` the
    encoded exception of one that did not.
    """

    pk: int
    id: str
    incarnation: str
    workflow: str
    definition: str = ""  # module:qualname, to tell two workflows of one name apart
    is_step: bool = False  # a run of a single step
    input: bytes = b""
    options: str = "{}"  # JSON of the settings given to this one run
    status: Status = Status.PENDING
    reason: Reason | None = None
    detail: str = ""  # for people: what it waits for, or why it is stuck
    owner: str | None = None
    claim: int = 0
    due: float | None = None
    crashes: int = 0  # workers that died in a row under this run without a new record of it
    parent: int | None = None
    parent_key: str = ""
    forks: tuple[Fork, ...] = ()
    created: float = 0.0
    started: float | None = None  # first claim
    ended: float | None = None
    result: bytes | None = None
    error: bytes | None = None
    culprit: str = ""  # identity of the step whose uncaught error ended the run
    python: str = ""
    version: str = ""  # version of the user's code that last ran it
    queue: str = ""  # the name of the queue that it is on
    queue_key: str = ""  # its key there
    priority: int = 0  # higher goes first
    dedup: str = ""  # held until its end: no other run of its workflow has the same
    debounce: str = ""  # held until its first claim
    turn: int = 1  # how often it has begun: one more for each `continue_as`
    turned: float | None = None  # when its turn began, if that is not the first
    held: bool = False  # nobody may claim it until it is given free
    cancelling: float | None = None  # when its cancellation was asked for
    deadline: float | None = None  # when the body is cancelled and the run fails, if it has not ended by then
    outlives: bool = False  # a child that goes on when its parent ends

    @property
    def began(self) -> float:
        """The time of the body's first drain: the first claim, or for a fork that of the run it was copied from."""
        copied = self.forks[0].began if self.forks else 0.0
        return copied or self.turned or self.started or self.created


class InboxRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Something that waits to be delivered to a run: a child's end, a cancellation, a message.

    `id` is given by the store and orders rows. `message_id` makes a repeated
    send of the same message one row.
    """

    id: int
    run: int
    kind: Kind  # CHILD, CANCEL or MESSAGE
    key: str
    message_id: str
    ok: bool = True
    value: bytes | None = None
    created: float = 0.0


class Standing(StrEnum):
    """What became of an approval that a run asked for."""

    OPEN = "open"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"  # nobody answered in time
    WITHDRAWN = "withdrawn"  # the run waits for it no longer


class ApprovalRow(msgspec.Struct, kw_only=True, gc=False):
    """A question that a run has for people. `pk` is given by the store and orders them.

    `id` is derived from the run's incarnation and `key`, the identity of the call. `question`, `data`, `form` (a JSON
    schema) and `addressee` are what the run says; `due` is when it expires. `by`, `note`, `value` (the encoded values
    of the form) and `answered` are the answer's, `ask` tells one and the same answer from another. `problem` says what
    was wrong with an answer that the run could not take, so that the approval is open again.
    """

    pk: int = 0
    id: str
    run: int
    key: str
    question: str
    data: bytes = b"null"
    form: bytes | None = None
    form_type: str = ""  # module:qualname of the class that the form is made into
    addressee: str = ""
    created: float = 0.0
    due: float | None = None
    status: Standing = Standing.OPEN
    by: str = ""
    note: str = ""
    value: bytes | None = None
    answered: float | None = None
    ask: str = ""
    problem: str = ""


class QueueRow(msgspec.Struct, kw_only=True, gc=False):
    """One queue as its store keeps it. `limits` are those that were declared last."""

    name: str
    limits: Limits = Limits()
    paused: float | None = None  # since when nothing of it is begun
    paused_by: str = ""


class QueueState(msgspec.Struct, kw_only=True, gc=False):
    """What is on a queue just now: runs that are due or will be (`waiting`), and those in a worker's memory."""

    row: QueueRow
    waiting: int = 0
    running: int = 0
    oldest: float | None = None  # when the first of those that could begin was due
    begun: int = 0  # within the time of its rate; no more than that allows
    keys: dict[str, tuple[int, int]] = {}  # (waiting, running) of the keys with the most


class WorkerState(StrEnum):
    """What is known of a worker."""

    ALIVE = "alive"
    EXPIRED = "expired"  # its lease ran out and was taken; the process may still exist
    GONE = "gone"  # its process is known to be gone


class WorkerRow(msgspec.Struct, kw_only=True):
    """One incarnation of a worker process; `id` is its lease's token and is never used again.

    `lease_until` is in the store's lease clock (boot time on one machine),
    comparable only under the same `boot`. `left` is when it was seen to be gone
    or expired. `serves` are the names that its runs may have, as it last said.
    """

    id: str
    pid: int
    host: str = ""
    boot: str = ""
    lock_path: str = ""
    lock_inode: int = 0
    state: WorkerState = WorkerState.ALIVE
    started: float = 0.0
    beat: float = 0.0
    lease_until: float = 0.0
    left: float | None = None
    version: str = ""
    python: str = ""
    serves: tuple[str, ...] | None = None  # None: it has not said (an older Outlast)
