-- Candidates for the bodies of scripts, which some callers run (docs/adr/0167). A script has one, or the one that ended last.
CREATE TABLE rollouts (
    script_id TEXT PRIMARY KEY,
    body TEXT NOT NULL,
    -- The revision of the script that other callers run.
    base_revision BIGINT NOT NULL,
    percent BIGINT NOT NULL,
    min_runs BIGINT NOT NULL,
    -- Percentage points of failed runs above those of the script.
    max_errors BIGINT NOT NULL,
    -- Percent of the script's mean time and instructions.
    max_time BIGINT,
    max_instructions BIGINT,
    state TEXT NOT NULL,
    reason TEXT,
    started_by TEXT NOT NULL,
    -- It also tells the rollout from others of the script.
    started_at BIGINT NOT NULL,
    changed_at BIGINT NOT NULL
);

-- The runs of both versions while a rollout goes on, of all hosts.
CREATE TABLE rollout_counts (
    script_id TEXT NOT NULL,
    version TEXT NOT NULL,
    runs BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    instructions BIGINT NOT NULL,
    guest_micros BIGINT NOT NULL,
    took_micros BIGINT NOT NULL,
    PRIMARY KEY (script_id, version)
);
