-- Writers keep the counts from this version on (docs/adr/0164). The triggers go on to count for transactions that do not announce that
-- they count: those of a host of the version before, which may run beside this one or be installed again, and statements of an
-- operator. An announcement is a setting of the transaction. A later migration drops them.
--
-- Only functions are replaced, so that nothing waits.

CREATE OR REPLACE FUNCTION count_records_in() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('belvedere.counts', TRUE) = 'writer' THEN
        RETURN NULL;
    END IF;
    PERFORM pg_advisory_xact_lock_shared(x'7265636f726473'::bigint);
    INSERT INTO record_counts AS c (collection_id, slot, records, hidden)
    SELECT r.collection_id, pg_backend_pid() % 64, count(*),
        count((SELECT 1 FROM dids d WHERE d.id = r.did_id AND d.status <> 0))
    FROM changed r GROUP BY r.collection_id ORDER BY r.collection_id
    ON CONFLICT (collection_id, slot) DO UPDATE SET records = c.records + excluded.records,
        hidden = c.hidden + excluded.hidden;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION count_records_out() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('belvedere.counts', TRUE) = 'writer' THEN
        RETURN NULL;
    END IF;
    PERFORM pg_advisory_xact_lock_shared(x'7265636f726473'::bigint);
    INSERT INTO record_counts AS c (collection_id, slot, records, hidden)
    SELECT r.collection_id, pg_backend_pid() % 64, -count(*),
        -count((SELECT 1 FROM dids d WHERE d.id = r.did_id AND d.status <> 0))
    FROM changed r GROUP BY r.collection_id ORDER BY r.collection_id
    ON CONFLICT (collection_id, slot) DO UPDATE SET records = c.records + excluded.records,
        hidden = c.hidden + excluded.hidden;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION count_records_of_accounts() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    hidden_now BIGINT[] := ARRAY (SELECT n.id FROM before b JOIN after n USING (id) WHERE b.status = 0 AND n.status <> 0);
    shown_now BIGINT[] := ARRAY (SELECT n.id FROM before b JOIN after n USING (id) WHERE b.status <> 0 AND n.status = 0);
BEGIN
    IF current_setting('belvedere.counts', TRUE) = 'writer' THEN
        RETURN NULL;
    END IF;
    IF cardinality(hidden_now) + cardinality(shown_now) = 0 THEN
        RETURN NULL;
    END IF;
    PERFORM pg_advisory_xact_lock(x'7265636f726473'::bigint);
    INSERT INTO record_counts AS c (collection_id, slot, records, hidden)
    SELECT k.collection_id, pg_backend_pid() % 64, 0, sum(a.sign * n.records)
    FROM (SELECT DISTINCT collection_id FROM record_counts) k
    CROSS JOIN (SELECT unnest(hidden_now) AS id, 1 AS sign UNION ALL SELECT unnest(shown_now), -1) a
    CROSS JOIN LATERAL
        (SELECT count(*) AS records FROM records r WHERE r.collection_id = k.collection_id AND r.did_id = a.id) n
    WHERE n.records > 0 GROUP BY k.collection_id ORDER BY k.collection_id
    ON CONFLICT (collection_id, slot) DO UPDATE SET hidden = c.hidden + excluded.hidden;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION count_links_in() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('belvedere.counts', TRUE) = 'writer' THEN
        RETURN NULL;
    END IF;
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

CREATE OR REPLACE FUNCTION count_links_out() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('belvedere.counts', TRUE) = 'writer' THEN
        RETURN NULL;
    END IF;
    PERFORM pg_advisory_xact_lock_shared(x'7265636f726473'::bigint);
    INSERT INTO link_counts AS c (target, collection_id, path, links, hidden)
    SELECT f.target, f.collection_id, p.path, -count(*),
        -count((SELECT 1 FROM dids d WHERE d.id = f.did_id AND d.status <> 0))
    FROM changed f
    JOIN link_counts k ON k.target = f.target AND k.collection_id = f.collection_id AND k.path = ''
    CROSS JOIN LATERAL unnest(array_append(string_to_array(nullif(f.paths, ''), ' '), '')) AS p (path)
    GROUP BY f.target, f.collection_id, p.path ORDER BY f.target, f.collection_id, p.path
    ON CONFLICT (target, collection_id, path) DO UPDATE SET links = c.links + excluded.links,
        hidden = c.hidden + excluded.hidden;
    DELETE FROM link_counts c USING (SELECT DISTINCT target, collection_id FROM changed) f
    WHERE c.target = f.target AND c.collection_id = f.collection_id AND c.path <> '' AND c.links = 0;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION count_links_of_accounts() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    hidden_now BIGINT[] := ARRAY (SELECT n.id FROM before b JOIN after n USING (id) WHERE b.status = 0 AND n.status <> 0);
    shown_now BIGINT[] := ARRAY (SELECT n.id FROM before b JOIN after n USING (id) WHERE b.status <> 0 AND n.status = 0);
BEGIN
    IF current_setting('belvedere.counts', TRUE) = 'writer' THEN
        RETURN NULL;
    END IF;
    IF cardinality(hidden_now) + cardinality(shown_now) = 0 THEN
        RETURN NULL;
    END IF;
    PERFORM pg_advisory_xact_lock(x'7265636f726473'::bigint);
    UPDATE link_counts c SET hidden = c.hidden + v.n
    FROM (SELECT f.target, f.collection_id, p.path, sum(a.sign) AS n
        FROM (SELECT unnest(hidden_now) AS id, 1 AS sign UNION ALL SELECT unnest(shown_now), -1) a
        CROSS JOIN collections k
        CROSS JOIN LATERAL (SELECT r.id FROM records r WHERE r.collection_id = k.id AND r.did_id = a.id) r
        CROSS JOIN LATERAL (SELECT * FROM record_refs f WHERE f.collection_id = k.id AND f.record_id = r.id AND f.did_id = a.id) f
        JOIN link_counts t ON t.target = f.target AND t.collection_id = f.collection_id AND t.path = ''
        CROSS JOIN LATERAL unnest(array_append(string_to_array(nullif(f.paths, ''), ' '), '')) AS p (path)
        GROUP BY f.target, f.collection_id, p.path) v
    WHERE c.target = v.target AND c.collection_id = v.collection_id AND c.path = v.path;
    RETURN NULL;
END $$;
