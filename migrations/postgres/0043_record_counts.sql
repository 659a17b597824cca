-- The number of records of each collection, kept by triggers in the transaction that changes it, so that counting reads no
-- records (docs/adr/0075). Records of hidden accounts are included. A collection's number is the sum of its slots: each
-- connection has one of 64, so that transactions seldom wait for each other's rows.
CREATE TABLE record_counts (
    collection_id BIGINT NOT NULL,
    slot INTEGER NOT NULL,
    records BIGINT NOT NULL,
    PRIMARY KEY (collection_id, slot)
) WITH (fillfactor = 50);

CREATE OR REPLACE FUNCTION count_records_in() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO record_counts AS c (collection_id, slot, records)
    SELECT collection_id, pg_backend_pid() % 64, count(*) FROM changed GROUP BY collection_id ORDER BY collection_id
    ON CONFLICT (collection_id, slot) DO UPDATE SET records = c.records + excluded.records;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION count_records_out() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO record_counts AS c (collection_id, slot, records)
    SELECT collection_id, pg_backend_pid() % 64, -count(*) FROM changed GROUP BY collection_id ORDER BY collection_id
    ON CONFLICT (collection_id, slot) DO UPDATE SET records = c.records + excluded.records;
    RETURN NULL;
END $$;

-- Creating a trigger waits for other transactions that write records, and keeps new ones out until the sums are stored.
CREATE TRIGGER records_counted_in AFTER INSERT ON records REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION count_records_in();
CREATE TRIGGER records_counted_out AFTER DELETE ON records REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION count_records_out();

INSERT INTO record_counts (collection_id, slot, records)
SELECT collection_id, 0, count(*) FROM records GROUP BY collection_id;
