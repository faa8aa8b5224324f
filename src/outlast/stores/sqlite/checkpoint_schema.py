"""The migration for checkpoints of threads; `checkpoint_verbs.py` has the words."""

from __future__ import annotations

CHECKPOINTS = """
CREATE TABLE checkpoints (
    pk          INTEGER PRIMARY KEY AUTOINCREMENT,
    thread      TEXT NOT NULL,
    ns          TEXT NOT NULL,
    id          TEXT NOT NULL,
    parent      TEXT,
    type        TEXT NOT NULL,
    data        BLOB NOT NULL,
    versions    TEXT NOT NULL,
    labels      TEXT NOT NULL,
    origin      TEXT NOT NULL,
    UNIQUE (thread, id, ns)
) STRICT;
CREATE INDEX checkpoints_line ON checkpoints (thread, ns, pk);
CREATE INDEX checkpoints_origin ON checkpoints (origin) WHERE origin <> '';

CREATE TABLE channel_values (
    thread      TEXT NOT NULL,
    ns          TEXT NOT NULL,
    channel     TEXT NOT NULL,
    version     TEXT NOT NULL,
    type        TEXT NOT NULL,
    data        BLOB NOT NULL,
    parts       TEXT NOT NULL,
    PRIMARY KEY (thread, ns, channel, version)
) STRICT;

CREATE TABLE checkpoint_writes (
    checkpoint  INTEGER NOT NULL,
    task        TEXT NOT NULL,
    idx         INTEGER NOT NULL,
    channel     TEXT NOT NULL,
    type        TEXT NOT NULL,
    data        BLOB NOT NULL,
    path        TEXT NOT NULL,
    PRIMARY KEY (checkpoint, task, idx)
) STRICT;
"""
