-- What scripts' SQL sees (db.raw): views of the index, and a schema for tables of their own. Accounts that are hidden
-- are not in the views. Times are RFC 3339 text; indexed_us is indexed_at in microseconds, which has an index.

CREATE SCHEMA script_tables;
CREATE SCHEMA script_views;

-- Microseconds as text.
CREATE FUNCTION script_views.time_text(us bigint) RETURNS text LANGUAGE sql STABLE STRICT PARALLEL SAFE AS $$
    SELECT to_char(to_timestamp(us / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS')
        || '.' || lpad((us % 1000000)::text, 6, '0') || 'Z'
$$;

-- A binary CID (36 bytes) as text: b and base32, five bits a character.
CREATE FUNCTION script_views.cid_text(cid bytea) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT 'b' || string_agg(substr('abcdefghijklmnopqrstuvwxyz234567',
        1 + substring(('x' || encode(cid, 'hex'))::bit(290) FROM 5 * n + 1 FOR 5)::int, 1), '' ORDER BY n)
    FROM generate_series(0, 57) n
$$;

CREATE VIEW script_views.records AS
SELECT 'at://' || d.did || '/' || c.nsid || '/' || r.rkey AS uri, d.did, c.nsid AS collection, r.rkey,
    script_views.cid_text(r.cid) AS cid, script_views.time_text(r.indexed_at) AS indexed_at,
    r.indexed_at AS indexed_us, r.record
FROM collections c JOIN records r ON r.collection_id = c.id JOIN dids d ON d.id = r.did_id AND d.status = 0;

-- The same for statements that name their columns: with the collection's number, so that an index on it gives its order.
CREATE VIEW script_views.records_lean AS
SELECT 'at://' || d.did || '/' || c.nsid || '/' || r.rkey AS uri, d.did, c.nsid AS collection, r.rkey,
    script_views.cid_text(r.cid) AS cid, script_views.time_text(r.indexed_at) AS indexed_at,
    r.indexed_at AS indexed_us, r.record, r.collection_id
FROM records r JOIN collections c ON c.id = r.collection_id JOIN dids d ON d.id = r.did_id AND d.status = 0;

CREATE VIEW script_views.collection_ids AS SELECT id, nsid FROM collections;

CREATE VIEW script_views.record_refs AS
SELECT 'at://' || d.did || '/' || c.nsid || '/' || r.rkey AS source_uri, f.target AS target_uri, c.nsid AS collection
FROM record_refs f JOIN records r ON r.id = f.record_id JOIN collections c ON c.id = f.collection_id
    JOIN dids d ON d.id = r.did_id AND d.status = 0;

-- Those that hold.
CREATE VIEW script_views.labels AS
SELECT src, uri, val, cid, script_views.time_text(cts) AS cts, script_views.time_text(exp) AS exp
FROM labels WHERE NOT neg AND (exp IS NULL OR exp > (extract(epoch FROM now()) * 1000000)::bigint);

CREATE VIEW script_views.lexicons AS
SELECT id, revision, lexicon_type, lexicon_json, action, target_collection, source, authority_did,
    script_views.time_text(created_at) AS created_at, script_views.time_text(updated_at) AS updated_at
FROM lexicons;
