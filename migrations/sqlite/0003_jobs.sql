-- Background work that scripts asked for. status: pending, running, pausing, paused, cancelling, cancelled, completed,
-- failed. client: the API client whose share of the processor it takes from. worker, lease_until: who runs it, and until
-- when that is believed without another word.
CREATE TABLE jobs (
    id TEXT PRIMARY KEY,
    job_type TEXT NOT NULL,
    status TEXT NOT NULL,
    input TEXT NOT NULL,
    progress TEXT NOT NULL,
    result TEXT,
    error TEXT,
    created_by TEXT NOT NULL,
    client TEXT,
    inherit_auth INTEGER NOT NULL,
    worker TEXT,
    lease_until INTEGER,
    started_at INTEGER,
    completed_at INTEGER,
    created_at INTEGER NOT NULL
) STRICT;

-- The list, newest first.
CREATE INDEX jobs_list ON jobs (created_at, id);
-- The same of one status; its pending part is the queue.
CREATE INDEX jobs_status ON jobs (status, created_at, id);
-- What one creator has waiting.
CREATE INDEX jobs_creator ON jobs (created_by, status);
