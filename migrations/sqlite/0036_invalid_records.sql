-- Records that their lexicon rejects. A record without a row is valid, or has no lexicon here. A table of its own: adding
-- it costs nothing on a large index, and records that are valid, nearly all, have no row.
CREATE TABLE invalid_records (
    record_id INTEGER PRIMARY KEY REFERENCES records (id) ON DELETE CASCADE,
    collection_id INTEGER NOT NULL,
    reason TEXT NOT NULL
) STRICT;

-- The invalid records of a collection: reads that leave them out, or ask for them, count them first.
CREATE INDEX invalid_records_collection ON invalid_records (collection_id);

-- How far the records of a collection have been validated again since its lexicons changed. fingerprint: of the
-- lexicons; passes: those that are complete, of two; after_*: the last record of the current pass that was checked.
CREATE TABLE validations (
    collection_id INTEGER PRIMARY KEY,
    fingerprint INTEGER NOT NULL,
    noticed_at INTEGER NOT NULL,
    passes INTEGER NOT NULL,
    after_indexed_at INTEGER NOT NULL,
    after_id INTEGER NOT NULL
) STRICT;
