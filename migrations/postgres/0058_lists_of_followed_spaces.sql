-- The list of repos of a followed space is read again from its start once a day.

-- listed_at: when it was last read from its start.
ALTER TABLE space_follows ADD COLUMN listed_at BIGINT NOT NULL DEFAULT 0;

-- The copies in a space, and their bytes.
CREATE INDEX space_repos_copied ON space_repos (space_id, author, copied_bytes) WHERE copied_bytes IS NOT NULL;

-- A copy has no log.
DELETE FROM space_ops WHERE EXISTS (SELECT 1 FROM space_repos r
    WHERE r.space_id = space_ops.space_id AND r.author = space_ops.author AND r.copied_bytes IS NOT NULL);
