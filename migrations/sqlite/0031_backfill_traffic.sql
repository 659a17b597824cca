-- What a backfill has requested from PDSs and received, by source, and the bytes of the records that it kept. NULL: a job
-- from before these were counted.
ALTER TABLE backfill_jobs ADD COLUMN page_requests INTEGER;
ALTER TABLE backfill_jobs ADD COLUMN page_bytes INTEGER;
ALTER TABLE backfill_jobs ADD COLUMN car_requests INTEGER;
ALTER TABLE backfill_jobs ADD COLUMN car_bytes INTEGER;
ALTER TABLE backfill_jobs ADD COLUMN car_repos INTEGER;
ALTER TABLE backfill_jobs ADD COLUMN bytes_kept INTEGER;
