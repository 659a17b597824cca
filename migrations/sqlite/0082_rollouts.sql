-- Candidates for the bodies of scripts, which some callers run (docs/adr/0167). A script has one, or the one that ended last.
CREATE TABLE rollouts (
    script_id TEXT PRIMARY KEY,
    body TEXT NOT NULL,
    -- The revision of the script that other callers run.
    base_revision INTEGER NOT NULL,
    percent INTEGER NOT NULL,
    min_runs INTEGER NOT NULL,
    -- Percentage points of failed runs above those of the script.
    max_errors INTEGER NOT NULL,
    -- Percent of the script's mean time and instructions.
    max_time INTEGER,
    max_instructions INTEGER,
    state TEXT NOT NULL,
    reason TEXT,
    started_by TEXT NOT NULL,
    -- It also tells the rollout from others of the script.
    started_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The runs of both versions while a rollout goes on, of all hosts.
CREATE TABLE rollout_counts (
    script_id TEXT NOT NULL,
    version TEXT NOT NULL,
    runs INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    instructions INTEGER NOT NULL,
    guest_micros INTEGER NOT NULL,
    took_micros INTEGER NOT NULL,
    PRIMARY KEY (script_id, version)
) STRICT, WITHOUT ROWID;
