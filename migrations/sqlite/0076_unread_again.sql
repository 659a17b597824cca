-- Whether a collection is to be read once more after its end (docs/adr/0139): only on PostgreSQL, where several hosts write.
ALTER TABLE unread_refs ADD COLUMN is_again INTEGER NOT NULL DEFAULT 0;

-- The collections with references of a version before 0059, which was started again since: their records are read again.
CREATE INDEX record_refs_unread ON record_refs (collection_id) WHERE paths IS NULL;
