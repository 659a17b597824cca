-- What a backfill has requested from PDSs and received, by source, and the bytes of the records that it kept. NULL: a job
-- from before these were counted.
ALTER TABLE backfill_jobs ADD COLUMN page_requests BIGINT;
ALTER TABLE backfill_jobs ADD COLUMN page_bytes BIGINT;
ALTER TABLE backfill_jobs ADD COLUMN car_requests BIGINT;
ALTER TABLE backfill_jobs ADD COLUMN car_bytes BIGINT;
ALTER TABLE backfill_jobs ADD COLUMN car_repos BIGINT;
ALTER TABLE backfill_jobs ADD COLUMN bytes_kept BIGINT;
