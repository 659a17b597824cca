-- The number of records of each collection, kept by triggers in the transaction that changes it, so that counting reads no
-- records (docs/adr/0075). Records of hidden accounts are included. slot: always 0; PostgreSQL uses it.
CREATE TABLE record_counts (
    collection_id INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    records INTEGER NOT NULL,
    PRIMARY KEY (collection_id, slot)
) STRICT, WITHOUT ROWID;

INSERT INTO record_counts (collection_id, slot, records)
SELECT collection_id, 0, count(*) FROM records GROUP BY collection_id;

CREATE TRIGGER records_counted_in AFTER INSERT ON records BEGIN
    INSERT INTO record_counts (collection_id, slot, records) VALUES (NEW.collection_id, 0, 1)
    ON CONFLICT (collection_id, slot) DO UPDATE SET records = records + 1;
END;

CREATE TRIGGER records_counted_out AFTER DELETE ON records BEGIN
    UPDATE record_counts SET records = records - 1 WHERE collection_id = OLD.collection_id AND slot = 0;
END;
