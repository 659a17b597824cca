-- The worker looks for jobs that have not ended twice a second; the others stay for ever.
CREATE INDEX backfill_jobs_unended ON backfill_jobs (seq) WHERE completed_at IS NULL;
