-- Records that their lexicon rejects. A record without a row is valid, or has no lexicon here. A table of its own: adding
-- it costs nothing on a large index, and records that are valid, nearly all, have no row.
CREATE TABLE invalid_records (
    record_id BIGINT PRIMARY KEY REFERENCES records (id) ON DELETE CASCADE,
    collection_id BIGINT NOT NULL,
    reason TEXT NOT NULL
);

-- The invalid records of a collection: reads that leave them out, or ask for them, count them first.
CREATE INDEX invalid_records_collection ON invalid_records (collection_id);

-- How far the records of a collection have been validated again since its lexicons changed. fingerprint: of the
-- lexicons; passes: those that are complete, of two; after_*: the last record of the current pass that was checked.
CREATE TABLE validations (
    collection_id BIGINT PRIMARY KEY,
    fingerprint BIGINT NOT NULL,
    noticed_at BIGINT NOT NULL,
    passes BIGINT NOT NULL,
    after_indexed_at BIGINT NOT NULL,
    after_id BIGINT NOT NULL
);

CREATE OR REPLACE VIEW script_views.records AS
SELECT 'at://' || d.did || '/' || c.nsid || '/' || r.rkey AS uri, d.did, c.nsid AS collection, r.rkey,
    script_views.cid_text(r.cid) AS cid, script_views.time_text(r.indexed_at) AS indexed_at,
    r.indexed_at AS indexed_us, r.record,
    NOT EXISTS (SELECT 1 FROM invalid_records i WHERE i.record_id = r.id) AS valid
FROM collections c JOIN records r ON r.collection_id = c.id JOIN dids d ON d.id = r.did_id AND d.status = 0;

CREATE OR REPLACE VIEW script_views.records_lean AS
SELECT 'at://' || d.did || '/' || c.nsid || '/' || r.rkey AS uri, d.did, c.nsid AS collection, r.rkey,
    script_views.cid_text(r.cid) AS cid, script_views.time_text(r.indexed_at) AS indexed_at,
    r.indexed_at AS indexed_us, r.record, r.collection_id,
    NOT EXISTS (SELECT 1 FROM invalid_records i WHERE i.record_id = r.id) AS valid
FROM records r JOIN collections c ON c.id = r.collection_id JOIN dids d ON d.id = r.did_id AND d.status = 0;
