-- Scripts whose runs are recorded (docs/adr/0168).
CREATE TABLE script_recordings (
    script_id TEXT PRIMARY KEY,
    percent INTEGER NOT NULL,
    until INTEGER NOT NULL,
    started_by TEXT NOT NULL,
    -- It also tells the recording from others of the script.
    started_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Recorded runs, without secrets.
CREATE TABLE script_recorded_runs (
    id INTEGER PRIMARY KEY,
    script_id TEXT NOT NULL,
    recorded_at INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    data BLOB NOT NULL
) STRICT;

CREATE INDEX script_recorded_runs_by_script ON script_recorded_runs (script_id, id);
