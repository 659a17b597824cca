-- Scripts whose runs are recorded (docs/adr/0168).
CREATE TABLE recordings (
    script_id TEXT PRIMARY KEY,
    percent INTEGER NOT NULL,
    until INTEGER NOT NULL,
    started_by TEXT NOT NULL,
    -- Runs of an earlier recording of the script are not added to this one.
    started_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Recorded runs, without secrets.
CREATE TABLE recorded_runs (
    id INTEGER PRIMARY KEY,
    script_id TEXT NOT NULL,
    recorded_at INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    data BLOB NOT NULL
) STRICT;

CREATE INDEX recorded_runs_by_script ON recorded_runs (script_id, id);
