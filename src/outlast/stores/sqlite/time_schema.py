"""The migration for what has to do with time: deadlines of runs, who outlives whom, schedules; see `schema.py`."""

from __future__ import annotations

TIME = """
ALTER TABLE runs ADD COLUMN deadline REAL;
ALTER TABLE runs ADD COLUMN outlives INTEGER NOT NULL DEFAULT 0;
UPDATE runs SET outlives = 1 WHERE parent IS NOT NULL AND ended IS NULL;
CREATE INDEX runs_overdue ON runs (deadline) WHERE deadline IS NOT NULL AND started IS NULL AND ended IS NULL;
CREATE INDEX runs_open_children ON runs (parent) WHERE parent IS NOT NULL AND ended IS NULL;

CREATE TABLE schedules (
    name        TEXT NOT NULL PRIMARY KEY,
    spec        TEXT NOT NULL,
    workflow    TEXT NOT NULL,
    definition  TEXT NOT NULL,
    is_step     INTEGER NOT NULL,
    input       BLOB NOT NULL,
    next        REAL,
    anchor      REAL NOT NULL,
    created     REAL NOT NULL,
    revision    INTEGER NOT NULL,
    backlog     TEXT NOT NULL,
    last        TEXT NOT NULL,
    last_slot   REAL,
    started     INTEGER NOT NULL,
    skipped     INTEGER NOT NULL,
    missed      INTEGER NOT NULL,
    ticked      TEXT NOT NULL DEFAULT '',
    answer      TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
"""
