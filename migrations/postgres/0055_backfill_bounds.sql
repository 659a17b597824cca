-- The most repos that a backfill may have; without it, the server's setting is the bound.
ALTER TABLE backfill_jobs ADD COLUMN max_repos BIGINT;
