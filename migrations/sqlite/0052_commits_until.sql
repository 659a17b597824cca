-- The time of the stream up to which no commit is missing. NULL: unknown. A server that sends account events moves the
-- cursor without any commit, so another is asked for everything since then.
ALTER TABLE stream_cursors ADD COLUMN commits_until INTEGER;
