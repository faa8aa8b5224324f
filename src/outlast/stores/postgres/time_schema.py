"""The migration for what has to do with time: deadlines of runs, who outlives whom, schedules; see `schema.py`."""

from __future__ import annotations

TIME = """
ALTER TABLE runs ADD COLUMN deadline float8;
ALTER TABLE runs ADD COLUMN outlives boolean NOT NULL DEFAULT false;
UPDATE runs SET outlives = true WHERE parent IS NOT NULL AND ended IS NULL;
CREATE INDEX runs_overdue ON runs (deadline) WHERE deadline IS NOT NULL AND started IS NULL AND ended IS NULL;
CREATE INDEX runs_open_children ON runs (parent, pk) WHERE parent IS NOT NULL AND ended IS NULL;

CREATE TABLE schedules (
    name        text COLLATE "C" NOT NULL PRIMARY KEY,
    spec        text COLLATE "C" NOT NULL,
    workflow    text COLLATE "C" NOT NULL,
    definition  text COLLATE "C" NOT NULL,
    is_step     boolean NOT NULL,
    input       bytea NOT NULL,
    next        float8,
    anchor      float8 NOT NULL,
    created     float8 NOT NULL,
    revision    bigint NOT NULL,
    backlog     text COLLATE "C" NOT NULL,
    last        text COLLATE "C" NOT NULL,
    last_slot   float8,
    started     bigint NOT NULL,
    skipped     bigint NOT NULL,
    missed      bigint NOT NULL,
    ticked      text COLLATE "C" NOT NULL DEFAULT '',
    answer      text COLLATE "C" NOT NULL DEFAULT ''
);
"""
