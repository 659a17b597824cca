-- Jobs are taken from their creators in turn. tenant: whose share a job takes (`client ID`, `account DID`, `domain NAME`), the
-- same for the jobs that it makes. Those of an older version have none and take one turn together.
ALTER TABLE jobs ADD COLUMN tenant TEXT NOT NULL DEFAULT '';

-- The queue of each tenant, and how many of its jobs wait or run.
CREATE INDEX jobs_queue ON jobs (status, tenant, created_at, id);
-- When a tenant had its last turn.
CREATE INDEX jobs_turns ON jobs (tenant, started_at);
-- What is kept of a tenant's jobs that have ended.
CREATE INDEX jobs_ended ON jobs (tenant, completed_at, id) WHERE completed_at IS NOT NULL;
