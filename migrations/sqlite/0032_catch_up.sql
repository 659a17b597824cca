-- Gaps of the stream, and the jobs that catch up after them.

-- kind: backfill, catch_up, repair. changed_since: of a catch-up; repos without a later commit are not read.
ALTER TABLE backfill_jobs ADD COLUMN kind TEXT NOT NULL DEFAULT 'backfill';
ALTER TABLE backfill_jobs ADD COLUMN changed_since INTEGER;
UPDATE backfill_jobs SET kind = 'repair' WHERE did IS NOT NULL;

-- Periods whose events may not have reached the index. A gap is removed when its catch-up has ended. reason:
-- cursor_too_old, cursor_in_future, server_rewound, message_skipped. job: the id of the catch-up, NULL before there is
-- one.
CREATE TABLE stream_gaps (
    seq INTEGER PRIMARY KEY,
    reason TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at INTEGER NOT NULL,
    found_at INTEGER NOT NULL,
    job TEXT
) STRICT;
