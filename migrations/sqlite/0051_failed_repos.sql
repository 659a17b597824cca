-- The repos of a backfill that could not be read. NULL: a job from before these were counted, or that has not begun.
ALTER TABLE backfill_jobs ADD COLUMN failed_repos INTEGER;
