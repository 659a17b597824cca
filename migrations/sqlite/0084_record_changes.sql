-- Changes of records for subscriptions (docs/adr/0165), in the order in which they were committed. Triggers write them, which
-- the server creates while a lexicon of a subscription names a collection. seq is never used twice. action: 0 created, 1 updated,
-- 2 deleted. size: bytes of the row, about. bytes_before: sizes of all earlier rows, also of those that are gone. cid, record: NULL
-- of a deletion.
CREATE TABLE record_changes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    collection_id INTEGER NOT NULL,
    did_id INTEGER NOT NULL,
    rkey TEXT NOT NULL,
    action INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    size INTEGER NOT NULL,
    bytes_before INTEGER NOT NULL,
    cid BLOB,
    record TEXT
) STRICT;
