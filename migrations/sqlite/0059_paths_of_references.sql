-- The places of a record where each of its references is, separated by spaces, and the record's account (docs/adr/0120). NULL in
-- rows of before: a task of the server reads these records again, collection by collection, and then also knows their
-- references to accounts.
ALTER TABLE record_refs ADD COLUMN paths TEXT;
ALTER TABLE record_refs ADD COLUMN did_id INTEGER;

-- The collections whose records it still has to read, and the last one that it has read.
CREATE TABLE unread_refs (
    collection_id INTEGER PRIMARY KEY,
    after_indexed_at INTEGER NOT NULL,
    after_id INTEGER NOT NULL
) STRICT;

INSERT INTO unread_refs (collection_id, after_indexed_at, after_id)
SELECT id, -9223372036854775808, -9223372036854775808 FROM collections;
