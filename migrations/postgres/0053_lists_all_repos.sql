-- Whether a backfill reads every repo of the relay, because the relay does not list them by collection.
ALTER TABLE backfill_jobs ADD COLUMN lists_all_repos BIGINT NOT NULL DEFAULT 0;
