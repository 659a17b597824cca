-- Changes of records for subscriptions (docs/adr/0165), in the order in which they were committed. Triggers write them, which
-- the server creates while a lexicon of a subscription names a collection. seq is never used twice. action: 0 created, 1 updated,
-- 2 deleted. size: bytes of the row, about. bytes_before: sizes of all earlier rows, also of those that are gone. cid, record: NULL
-- of a deletion, and of a collection that only live queries read.
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

-- Collections that live queries read, or have read in the last day (docs/adr/0169).
CREATE TABLE watched_collections (
    collection_id INTEGER PRIMARY KEY,
    used_at INTEGER NOT NULL
) STRICT;

-- Earlier versions stored subscriptions as lexicons without a method.
UPDATE lexicons SET lexicon_type = 'subscription'
WHERE lexicon_type = 'definitions' AND lexicon_json ->> '$.defs.main.type' = 'subscription';
