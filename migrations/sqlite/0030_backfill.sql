-- Backfills: jobs that read the history of collections from the PDSs.

-- status: running, pausing, paused, cancelling, cancelled, completed, failed. stage: pending, discovering_repos,
-- resolving_and_fetching, completed, failed, cancelled. seq: the order of the queue. is_discovered: the job began with
-- its repos known.
CREATE TABLE backfill_jobs (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    collection TEXT,
    did TEXT,
    status TEXT NOT NULL,
    stage TEXT NOT NULL,
    is_discovered INTEGER NOT NULL,
    total_repos INTEGER,
    resolved_repos INTEGER,
    processed_repos INTEGER,
    total_records INTEGER,
    error TEXT,
    created_by TEXT,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    completed_at INTEGER
) STRICT;

-- How far the relay's list of a collection was read. Written in the transaction that adds the repos of its page.
CREATE TABLE backfill_discovery (
    job INTEGER NOT NULL,
    collection TEXT NOT NULL,
    cursor TEXT,
    is_done INTEGER NOT NULL,
    PRIMARY KEY (job, collection)
) STRICT, WITHOUT ROWID;

-- status: pending, completed, failed.
CREATE TABLE backfill_repos (
    job INTEGER NOT NULL,
    did TEXT NOT NULL,
    pds_endpoint TEXT,
    status TEXT NOT NULL,
    records_fetched INTEGER NOT NULL DEFAULT 0,
    error_kind TEXT,
    error TEXT,
    PRIMARY KEY (job, did)
) STRICT, WITHOUT ROWID;

-- The summary by host.
CREATE INDEX backfill_repos_hosts ON backfill_repos (job, pds_endpoint);
-- What is left to do: repos without a known host, and those of one host.
CREATE INDEX backfill_repos_pending ON backfill_repos (job, pds_endpoint, did) WHERE status = 'pending';
-- The list of errors.
CREATE INDEX backfill_repos_errors ON backfill_repos (job, did) WHERE error_kind IS NOT NULL;

-- Where the reading of a repo stopped between two pages. Rows of a repo are removed when it is completed. is_ordered:
-- whether all pages so far were in the order of record keys.
CREATE TABLE backfill_pages (
    job INTEGER NOT NULL,
    did TEXT NOT NULL,
    collection TEXT NOT NULL,
    cursor TEXT,
    last_rkey TEXT,
    is_ordered INTEGER NOT NULL,
    is_done INTEGER NOT NULL,
    records INTEGER NOT NULL,
    PRIMARY KEY (job, did, collection)
) STRICT, WITHOUT ROWID;
