-- How many of a collection's records are of hidden accounts, so that a count looks at no account (docs/adr/0083). The triggers
-- of 0043 keep it too, and one on the accounts' status.
ALTER TABLE record_counts ADD COLUMN hidden INTEGER NOT NULL DEFAULT 0;

UPDATE record_counts SET hidden = (SELECT count(*) FROM dids d CROSS JOIN records r
    WHERE d.status <> 0 AND r.collection_id = record_counts.collection_id AND r.did_id = d.id);

DROP TRIGGER records_counted_in;
CREATE TRIGGER records_counted_in AFTER INSERT ON records BEGIN
    INSERT INTO record_counts (collection_id, slot, records, hidden)
    VALUES (NEW.collection_id, 0, 1, EXISTS (SELECT 1 FROM dids WHERE id = NEW.did_id AND status <> 0))
    ON CONFLICT (collection_id, slot) DO UPDATE SET records = records + 1, hidden = hidden + excluded.hidden;
END;

DROP TRIGGER records_counted_out;
CREATE TRIGGER records_counted_out AFTER DELETE ON records BEGIN
    UPDATE record_counts SET records = records - 1,
        hidden = hidden - EXISTS (SELECT 1 FROM dids WHERE id = OLD.did_id AND status <> 0)
    WHERE collection_id = OLD.collection_id AND slot = 0;
END;

CREATE TRIGGER records_counted_of_account AFTER UPDATE OF status ON dids
WHEN (OLD.status <> 0) <> (NEW.status <> 0) BEGIN
    UPDATE record_counts SET hidden = hidden + iif(NEW.status <> 0, 1, -1) *
        (SELECT count(*) FROM records r WHERE r.collection_id = record_counts.collection_id AND r.did_id = NEW.id)
    WHERE EXISTS (SELECT 1 FROM records r WHERE r.collection_id = record_counts.collection_id AND r.did_id = NEW.id);
END;
