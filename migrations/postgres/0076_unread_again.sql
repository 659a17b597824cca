-- A host of a version before 0059 writes references without their path and account, also while a newer one runs. Their collection is
-- read again: once more from its beginning if that is going on, because the reference may be of a record that was read (docs/adr/0139).
ALTER TABLE unread_refs ADD COLUMN is_again BOOLEAN NOT NULL DEFAULT FALSE;

CREATE OR REPLACE FUNCTION count_links_in() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(x'7265636f726473'::bigint);
    INSERT INTO link_counts AS c (target, collection_id, path, links, hidden)
    SELECT f.target, f.collection_id, p.path, count(*),
        count((SELECT 1 FROM dids d WHERE d.id = f.did_id AND d.status <> 0))
    FROM changed f
    JOIN link_counts k ON k.target = f.target AND k.collection_id = f.collection_id AND k.path = ''
    CROSS JOIN LATERAL unnest(array_append(string_to_array(nullif(f.paths, ''), ' '), '')) AS p (path)
    GROUP BY f.target, f.collection_id, p.path ORDER BY f.target, f.collection_id, p.path
    ON CONFLICT (target, collection_id, path) DO UPDATE SET links = c.links + excluded.links,
        hidden = c.hidden + excluded.hidden;
    INSERT INTO unread_refs AS u (collection_id, after_indexed_at, after_id)
    SELECT DISTINCT f.collection_id, (-9223372036854775808)::bigint, (-9223372036854775808)::bigint
    FROM changed f WHERE f.paths IS NULL ORDER BY f.collection_id
    ON CONFLICT (collection_id) DO UPDATE SET is_again = TRUE WHERE NOT u.is_again;
    RETURN NULL;
END $$;
