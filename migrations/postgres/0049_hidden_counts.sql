-- How many of a collection's records are of hidden accounts, so that a count looks at no account (docs/adr/0083). The triggers
-- of 0043 keep it too, and one on the accounts' status.
--
-- A transaction that inserts or deletes records and one that hides their account would not see each other's rows. So the
-- triggers of records hold an advisory lock (0x7265636f726473, "records") until the end of their transaction, which they share, and the trigger
-- of accounts holds it alone. Their statements after the lock see what the others have committed.

-- The timeouts of the role or the database are meant for short statements.
SET LOCAL statement_timeout = 0;
SET LOCAL lock_timeout = 0;

-- Waits for other transactions that write accounts or records, and keeps new ones out until the numbers are stored.
LOCK TABLE dids, records IN SHARE ROW EXCLUSIVE MODE;

ALTER TABLE record_counts ADD COLUMN hidden BIGINT NOT NULL DEFAULT 0;

CREATE OR REPLACE FUNCTION count_records_in() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
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

CREATE TRIGGER records_counted_of_accounts AFTER UPDATE ON dids
    REFERENCING OLD TABLE AS before NEW TABLE AS after
    FOR EACH STATEMENT EXECUTE FUNCTION count_records_of_accounts();

INSERT INTO record_counts AS c (collection_id, slot, records, hidden)
SELECT k.collection_id, 0, 0, n.records
FROM (SELECT DISTINCT collection_id FROM record_counts) k
CROSS JOIN LATERAL (SELECT count(*) AS records FROM dids d
    CROSS JOIN LATERAL (SELECT 1 FROM records r WHERE r.collection_id = k.collection_id AND r.did_id = d.id) r
    WHERE d.status <> 0) n
WHERE n.records > 0
ON CONFLICT (collection_id, slot) DO UPDATE SET hidden = excluded.hidden;
