-- How many records of a collection refer to a target, for targets with many (docs/adr/0120): once for each place where the reference
-- is, and once with an empty path for all places. Triggers keep the numbers in the transactions that change them; `links`
-- includes the records of hidden accounts, which `hidden` counts. A target is counted from its row with the empty path on.
--
-- The triggers take the advisory lock of 0049 ("records"): those of references share it, and the one of accounts has it
-- alone, as has whoever begins to count a target. Statements after the lock see what the others have committed.

-- The timeouts of the role or the database are meant for short statements.
SET LOCAL statement_timeout = 0;

CREATE TABLE link_counts (
    target TEXT COLLATE "C" NOT NULL,
    collection_id BIGINT NOT NULL,
    path TEXT COLLATE "C" NOT NULL,
    links BIGINT NOT NULL,
    hidden BIGINT NOT NULL,
    PRIMARY KEY (target, collection_id, path)
) WITH (fillfactor = 50);

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
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION count_links_out() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
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

-- Creating a trigger waits for other transactions that write the table. Each attempt does so for at most 0.2 s at a time, because
-- writes that begin meanwhile wait behind it.
DO $$
DECLARE
    part regclass;
    attempts bigint := 0;
BEGIN
    LOOP
        attempts := attempts + 1;
        BEGIN
            PERFORM set_config('lock_timeout', '200ms', true);
            CREATE TRIGGER record_refs_counted_of_accounts AFTER UPDATE ON dids
                REFERENCING OLD TABLE AS before NEW TABLE AS after
                FOR EACH STATEMENT EXECUTE FUNCTION count_links_of_accounts();
            FOR part IN SELECT relid FROM pg_partition_tree('record_refs') LOOP
                EXECUTE format('CREATE TRIGGER record_refs_counted_in AFTER INSERT ON %s REFERENCING NEW TABLE AS changed '
                    'FOR EACH STATEMENT EXECUTE FUNCTION count_links_in()', part);
                EXECUTE format('CREATE TRIGGER record_refs_counted_out AFTER DELETE ON %s REFERENCING OLD TABLE AS changed '
                    'FOR EACH STATEMENT EXECUTE FUNCTION count_links_out()', part);
            END LOOP;
            RETURN;
        EXCEPTION WHEN lock_not_available THEN
            -- Once a minute or so.
            IF attempts % 150 = 0 THEN
                RAISE WARNING 'a long transaction does not let the migration create its triggers: end it '
                    '(pg_stat_activity shows it), or wait for its end';
            END IF;
            PERFORM pg_sleep(0.2);
        END;
    END LOOP;
END $$;
