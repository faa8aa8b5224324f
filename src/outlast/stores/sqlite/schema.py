"""The tables of a SQLite store, and how a file gets them.

The model, in one breath: a row of `runs` is one run and says in which status
it is, who owns it and when it may be claimed; `records` is its journal,
`inbox` what waits to be delivered to it; `workers` are the processes that own
runs, each with a lease.

- `runs`: `owner` and `claim` are the fence of every write of a worker. `due` is set
  only while the run may be claimed, so that the partial index over it holds
  what a worker looks for and nothing else: parked, owned and ended runs cost a
  claim nothing. `holder` (who claimed it last), `ask` (the key of that claim)
  and `resumed` (the last resume) let a verb that is sent again be known again.
- `inputs`: the arguments, apart from their run, since a change of a run's row
  writes the whole row anew and arguments may be long.
- `records`: clustered by (run, seq), so that replay reads one stretch of the file.
- `taken`: ids of messages that were delivered to a run, and of cancellations in this life
  of it, so that one sent again is not delivered twice; of kind `given_up`, by which its
  parent no longer waited for it, which is asked once. What an end clears are the cancellations.
- `approvals`: what runs ask people, and the answers.
- `early`: messages for runs that are still to be started, by run id.
- `firsts`: the call that a run was started with, where it has continued as another since.
- `waiters`: runs, besides the parent, that started the same child.
- `queues`: the limits that were declared last. What is taken of them stands in `runs`, whose columns `queue`,
  `queue_key` and `priority` say where a run waits; indexes hold those few alone. `uses` are the moments at which
  something begins under a rate (or is to, where it is not `taken`), as long as one counts.
- `schedules`: `ticked` and `answer` are the key of the last tick and what it was answered.
- `workers`: `taken_by` and `answer` are those of the verb that ended the worker. `serves` is a JSON array
  of the names that its runs may have.

- `stream_items`: what a run wrote to its streams, many items (`count`) in a row, at the positions from `pos` on; or how
  far to drop back. `stream_sources` says which attempt of a step has items in a stream, how many and from where on, and
  whether they stay. `published` are its values. `stores/emits.py` has the rules.
- `checkpoints`, `channel_values`, `checkpoint_writes`: see `checkpoint_verbs.py`.

Keys of runs and of inbox rows are never used again (AUTOINCREMENT): a worker that
was frozen may still hold one. Times are seconds since the epoch, except
`lease_until`, which is seconds since the start `boot` of the machine.

A migration is one script; `user_version` counts those that a file has. They run
in one transaction that holds the write lock, so that of many processes that
start at once one migrates and the others find it done, and a process that dies
half-way leaves the file as it was.
"""

from __future__ import annotations

import apsw

from outlast.core.errors import NotAStore, ReadOnlyStore
from outlast.stores import rows
from outlast.stores.sqlite.checkpoint_schema import CHECKPOINTS
from outlast.stores.sqlite.time_schema import TIME

APPLICATION_ID = 0x4F75744C  # "OutL" in the file's header marks it as ours

_FIRST = """
CREATE TABLE runs (
    pk          INTEGER PRIMARY KEY AUTOINCREMENT,
    id          TEXT NOT NULL UNIQUE,
    incarnation TEXT NOT NULL,
    workflow    TEXT NOT NULL,
    definition  TEXT NOT NULL,
    is_step     INTEGER NOT NULL,
    options     TEXT NOT NULL,
    status      TEXT NOT NULL
        CHECK (status IN ('pending', 'running', 'waiting', 'succeeded', 'failed', 'cancelled', 'stuck')),
    reason      TEXT CHECK (reason IN ('in_doubt', 'diverged', 'crash_loop', 'undecodable')),
    detail      TEXT NOT NULL DEFAULT '',
    owner       TEXT,
    claim       INTEGER NOT NULL DEFAULT 0,
    due         REAL,
    crashes     INTEGER NOT NULL DEFAULT 0,
    parent      INTEGER,
    parent_key  TEXT NOT NULL,
    forks       TEXT NOT NULL,
    created     REAL NOT NULL,
    started     REAL,
    ended       REAL,
    culprit     TEXT NOT NULL DEFAULT '',
    python      TEXT NOT NULL,
    version     TEXT NOT NULL,
    holder      TEXT NOT NULL DEFAULT '',
    ask         TEXT NOT NULL DEFAULT '',
    resumed     TEXT NOT NULL DEFAULT '',
    result      BLOB,
    error       BLOB,
    CHECK ((owner IS NULL) = (status <> 'running')),
    CHECK ((reason IS NULL) = (status <> 'stuck')),
    CHECK ((ended IS NULL) = (status NOT IN ('succeeded', 'failed', 'cancelled'))),
    CHECK (due IS NULL OR status IN ('pending', 'waiting')),
    CHECK (due IS NOT NULL OR status <> 'pending')
) STRICT;
CREATE INDEX runs_due ON runs (workflow, due) WHERE due IS NOT NULL;
CREATE INDEX runs_owner ON runs (owner, ask) WHERE owner IS NOT NULL;
CREATE INDEX runs_status ON runs (status);
CREATE INDEX runs_ended ON runs (ended) WHERE ended IS NOT NULL;
CREATE INDEX runs_parent ON runs (parent) WHERE parent IS NOT NULL;

CREATE TABLE inputs (
    run         INTEGER PRIMARY KEY,
    input       BLOB NOT NULL
) STRICT;

CREATE TABLE records (
    run         INTEGER NOT NULL,
    seq         INTEGER NOT NULL,
    kind        TEXT NOT NULL CHECK (kind IN ('step', 'timer', 'child', 'message', 'cancel',
                                              'start', 'late', 'attempt', 'intent', 'resolution', 'patch')),
    key         TEXT NOT NULL,
    at          REAL NOT NULL,
    name        TEXT NOT NULL,
    ok          INTEGER NOT NULL,
    args        BLOB,
    value       BLOB,
    attempt     INTEGER NOT NULL,
    effect      TEXT NOT NULL,
    started     REAL NOT NULL,
    ended       REAL NOT NULL,
    due         REAL,
    cause       INTEGER NOT NULL,
    worker      TEXT NOT NULL,
    note        TEXT NOT NULL,
    PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE inbox (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    run         INTEGER NOT NULL,
    kind        TEXT NOT NULL CHECK (kind IN ('child', 'cancel', 'message')),
    key         TEXT NOT NULL,
    message_id  TEXT NOT NULL,
    ok          INTEGER NOT NULL,
    value       BLOB,
    created     REAL NOT NULL,
    UNIQUE (run, kind, message_id)
) STRICT;

CREATE TABLE taken (
    run         INTEGER NOT NULL,
    kind        TEXT NOT NULL,
    message_id  TEXT NOT NULL,
    PRIMARY KEY (run, kind, message_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE waiters (
    run         INTEGER NOT NULL,
    parent      INTEGER NOT NULL,
    parent_key  TEXT NOT NULL,
    PRIMARY KEY (run, parent, parent_key)
) STRICT, WITHOUT ROWID;

CREATE TABLE workers (
    id          TEXT NOT NULL PRIMARY KEY,
    pid         INTEGER NOT NULL,
    host        TEXT NOT NULL,
    boot        TEXT NOT NULL,
    lock_path   TEXT NOT NULL,
    lock_inode  INTEGER NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('alive', 'expired', 'gone')),
    started     REAL NOT NULL,
    beat        REAL NOT NULL,
    lease_until REAL NOT NULL,
    left        REAL,
    version     TEXT NOT NULL,
    python      TEXT NOT NULL,
    taken_by    TEXT NOT NULL DEFAULT '',
    answer      TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
"""

QUEUED = "status = 'pending' AND (claim > 0 OR due <= created)"
"""`rules.is_queued`, as a condition; the index below is used where a statement has the very same text."""

_SECOND = f"""
ALTER TABLE workers ADD COLUMN serves TEXT;

CREATE INDEX runs_queued ON runs (workflow, due) WHERE {QUEUED};
"""

_EARLY_MESSAGES = """
CREATE TABLE early (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id      TEXT NOT NULL,
    key         TEXT NOT NULL,
    message_id  TEXT NOT NULL,
    value       BLOB,
    created     REAL NOT NULL,
    UNIQUE (run_id, message_id)
) STRICT;
"""

_APPROVALS = """
CREATE TABLE approvals (
    pk          INTEGER PRIMARY KEY AUTOINCREMENT,
    id          TEXT NOT NULL UNIQUE,
    run         INTEGER NOT NULL,
    key         TEXT NOT NULL,
    question    TEXT NOT NULL,
    data        BLOB NOT NULL,
    form        BLOB,
    form_type   TEXT NOT NULL,
    addressee   TEXT NOT NULL,
    created     REAL NOT NULL,
    due         REAL,
    status      TEXT NOT NULL CHECK (status IN ('open', 'approved', 'rejected', 'expired', 'withdrawn')),
    by          TEXT NOT NULL DEFAULT '',
    note        TEXT NOT NULL DEFAULT '',
    value       BLOB,
    answered    REAL,
    ask         TEXT NOT NULL DEFAULT '',
    problem     TEXT NOT NULL DEFAULT '',
    CHECK ((answered IS NULL) = (status = 'open'))
) STRICT;
CREATE INDEX approvals_run ON approvals (run);
CREATE INDEX approvals_open ON approvals (pk) WHERE status = 'open';

-- Records may be of kind `ask`: SQLite changes a CHECK only by making the table anew.
CREATE TABLE new_records (
    run         INTEGER NOT NULL,
    seq         INTEGER NOT NULL,
    kind        TEXT NOT NULL CHECK (kind IN ('step', 'timer', 'child', 'message', 'cancel', 'start', 'ask',
                                              'late', 'attempt', 'intent', 'resolution', 'patch')),
    key         TEXT NOT NULL,
    at          REAL NOT NULL,
    name        TEXT NOT NULL,
    ok          INTEGER NOT NULL,
    args        BLOB,
    value       BLOB,
    attempt     INTEGER NOT NULL,
    effect      TEXT NOT NULL,
    started     REAL NOT NULL,
    ended       REAL NOT NULL,
    due         REAL,
    cause       INTEGER NOT NULL,
    worker      TEXT NOT NULL,
    note        TEXT NOT NULL,
    PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO new_records SELECT * FROM records;
DROP TABLE records;
ALTER TABLE new_records RENAME TO records;
"""

_STREAMS = """
CREATE TABLE stream_items (
    run         INTEGER NOT NULL,
    name        TEXT NOT NULL,
    pos         INTEGER NOT NULL,
    count       INTEGER NOT NULL,
    source      TEXT NOT NULL,
    back_to     INTEGER,
    items       BLOB,
    PRIMARY KEY (run, name, pos),
    CHECK ((items IS NULL) = (back_to IS NOT NULL))
) STRICT, WITHOUT ROWID;

CREATE TABLE stream_sources (
    run         INTEGER NOT NULL,
    name        TEXT NOT NULL,
    source      TEXT NOT NULL,
    token       TEXT NOT NULL,
    wrote       INTEGER NOT NULL,
    first       INTEGER NOT NULL,
    settled     INTEGER NOT NULL,
    PRIMARY KEY (run, source, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX stream_unsettled ON stream_sources (run) WHERE NOT settled;

CREATE TABLE published (
    run         INTEGER NOT NULL,
    name        TEXT NOT NULL,
    value       BLOB NOT NULL,
    PRIMARY KEY (run, name)
) STRICT, WITHOUT ROWID;
"""

_QUEUES = f"""
ALTER TABLE runs ADD COLUMN queue TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN queue_key TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN dedup TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN debounce TEXT NOT NULL DEFAULT '';

DROP INDEX runs_due;
CREATE INDEX runs_due ON runs (workflow, due) WHERE due IS NOT NULL AND queue = '';
DROP INDEX runs_queued;
CREATE INDEX runs_queued ON runs (workflow, due) WHERE {QUEUED} AND queue = '';
CREATE INDEX runs_queued_in_line ON runs (workflow, due) WHERE {QUEUED} AND queue <> '';
CREATE INDEX runs_in_line_new ON runs (queue, priority, queue_key, due) WHERE queue <> '' AND due IS NOT NULL
    AND started IS NULL;
CREATE INDEX runs_in_line_begun ON runs (queue, priority, queue_key, due) WHERE queue <> '' AND due IS NOT NULL
    AND started IS NOT NULL;
CREATE INDEX runs_in_line_due_new ON runs (queue, due) WHERE queue <> '' AND due IS NOT NULL AND started IS NULL;
CREATE INDEX runs_in_line_due_begun ON runs (queue, due) WHERE queue <> '' AND due IS NOT NULL
    AND started IS NOT NULL;
CREATE INDEX runs_in_place ON runs (queue, queue_key, owner) WHERE queue <> '' AND owner IS NOT NULL;
CREATE INDEX runs_last_begun ON runs (queue, queue_key, started) WHERE queue <> '' AND started IS NOT NULL;
CREATE UNIQUE INDEX runs_dedup ON runs (workflow, dedup) WHERE dedup <> '' AND ended IS NULL;
CREATE UNIQUE INDEX runs_debounce ON runs (workflow, debounce) WHERE debounce <> '' AND started IS NULL
    AND ended IS NULL;
CREATE INDEX runs_debounced ON runs (debounce, incarnation) WHERE debounce <> '';

CREATE TABLE queues (
    name        TEXT NOT NULL PRIMARY KEY,
    limits      TEXT NOT NULL,
    paused      REAL,
    paused_by   TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;

CREATE TABLE uses (
    id          INTEGER PRIMARY KEY,
    rate        TEXT NOT NULL,
    at          REAL NOT NULL,
    amount      REAL NOT NULL,
    key         TEXT NOT NULL,
    taken       INTEGER NOT NULL
) STRICT;
CREATE INDEX uses_at ON uses (rate, at);
CREATE INDEX uses_key ON uses (key) WHERE key <> '';
"""

FREE = "held = 0"
"""What a run is that may be claimed."""

_COURSES = """
ALTER TABLE runs ADD COLUMN turn INTEGER NOT NULL DEFAULT 1;
ALTER TABLE runs ADD COLUMN turned REAL;
ALTER TABLE runs ADD COLUMN held INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN cancelling REAL;

CREATE INDEX runs_held ON runs (pk) WHERE held <> 0;

CREATE TABLE firsts (
    run         INTEGER PRIMARY KEY,
    incarnation TEXT NOT NULL,
    workflow    TEXT NOT NULL,
    definition  TEXT NOT NULL,
    input       BLOB
) STRICT;
"""

_NEW_IN_INBOX = """
CREATE INDEX inbox_run ON inbox (run);  -- and by id in each run, as in every index
"""

MIGRATIONS: tuple[str, ...] = (
    _FIRST, _SECOND, _EARLY_MESSAGES, _APPROVALS, _STREAMS, _QUEUES, _COURSES, TIME, _NEW_IN_INBOX,
    CHECKPOINTS,
)  # fmt: skip

RUN_COLUMNS = rows.RUN_COLUMNS.replace(" input,", " (SELECT input FROM inputs WHERE run = pk) AS input,")


def version_of(db: apsw.Connection, path: str) -> int:
    """Return the schema version of a file, 0 when it is empty. Raises NotAStore when it is not ours, or too new."""
    db.execute("BEGIN")  # one look: another process may be migrating
    try:
        application, version = db.pragma("application_id"), db.pragma("user_version")
        tables = db.execute("SELECT count(*) FROM sqlite_schema").fetchall()[0][0]
    finally:
        db.execute("COMMIT")
    if application == 0 and version == 0 and tables == 0:
        return 0
    if application != APPLICATION_ID:
        raise NotAStore(f"{path} is a SQLite file of another application, not an Outlast store; choose another file")
    if version > len(MIGRATIONS):
        raise NotAStore(
            f"{path} has schema version {version}, made by a newer Outlast; this one knows versions up to "
            f"{len(MIGRATIONS)}. Upgrade Outlast, or choose another file"
        )
    return int(version)


def migrate(db: apsw.Connection, path: str) -> None:
    """Bring a file's tables up to date; does nothing where they are."""
    if version_of(db, path) == len(MIGRATIONS):
        return
    if db.readonly("main"):
        raise ReadOnlyStore(
            f"{path} has the schema of an older Outlast and cannot be written, so it cannot be migrated"
        )
    db.execute("BEGIN IMMEDIATE")
    try:
        version = db.pragma("user_version")  # again, now that nobody else can change it
        for script in MIGRATIONS[version:]:
            db.execute(script)
        db.pragma("application_id", APPLICATION_ID)
        db.pragma("user_version", max(version, len(MIGRATIONS)))
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
