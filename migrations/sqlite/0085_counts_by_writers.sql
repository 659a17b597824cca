-- Writers keep the counts from this version on (docs/adr/0164). The triggers go on to count for transactions that do not announce that
-- they count: those of the version before, if it is installed again, and statements of an operator. An announcement is the row of no
-- collection in record_counts, with the number 1. A transaction sets it back before it commits. A later migration drops the triggers.
INSERT INTO record_counts (collection_id, slot, records, hidden) VALUES (0, -1, 0, 0);

DROP TRIGGER records_counted_in;
CREATE TRIGGER records_counted_in AFTER INSERT ON records
WHEN NOT EXISTS (SELECT 1 FROM record_counts WHERE collection_id = 0 AND slot = -1 AND records = 1) BEGIN
    INSERT INTO record_counts (collection_id, slot, records, hidden)
    VALUES (NEW.collection_id, 0, 1, EXISTS (SELECT 1 FROM dids WHERE id = NEW.did_id AND status <> 0))
    ON CONFLICT (collection_id, slot) DO UPDATE SET records = records + 1, hidden = hidden + excluded.hidden;
END;

DROP TRIGGER records_counted_out;
CREATE TRIGGER records_counted_out AFTER DELETE ON records
WHEN NOT EXISTS (SELECT 1 FROM record_counts WHERE collection_id = 0 AND slot = -1 AND records = 1) BEGIN
    UPDATE record_counts SET records = records - 1,
        hidden = hidden - EXISTS (SELECT 1 FROM dids WHERE id = OLD.did_id AND status <> 0)
    WHERE collection_id = OLD.collection_id AND slot = 0;
END;

DROP TRIGGER records_counted_of_account;
CREATE TRIGGER records_counted_of_account AFTER UPDATE OF status ON dids
WHEN (OLD.status <> 0) <> (NEW.status <> 0)
    AND NOT EXISTS (SELECT 1 FROM record_counts WHERE collection_id = 0 AND slot = -1 AND records = 1) BEGIN
    UPDATE record_counts SET hidden = hidden + iif(NEW.status <> 0, 1, -1) *
        (SELECT count(*) FROM records r WHERE r.collection_id = record_counts.collection_id AND r.did_id = NEW.id)
    WHERE EXISTS (SELECT 1 FROM records r WHERE r.collection_id = record_counts.collection_id AND r.did_id = NEW.id);
END;

-- The version before adds links itself, and has this trigger take them away.
DROP TRIGGER record_refs_counted_out;
CREATE TRIGGER record_refs_counted_out AFTER DELETE ON record_refs
WHEN NOT EXISTS (SELECT 1 FROM record_counts WHERE collection_id = 0 AND slot = -1 AND records = 1)
    AND EXISTS (SELECT 1 FROM link_counts c
        WHERE c.target = OLD.target AND c.collection_id = OLD.collection_id AND c.path = '') BEGIN
    UPDATE link_counts SET links = links - 1,
        hidden = hidden - EXISTS (SELECT 1 FROM dids WHERE id = OLD.did_id AND status <> 0)
    WHERE target = OLD.target AND collection_id = OLD.collection_id AND path IN (SELECT value
        FROM json_each('[""' || iif(OLD.paths <> '', ',"' || replace(OLD.paths, ' ', '","') || '"', '') || ']'));
    DELETE FROM link_counts
    WHERE target = OLD.target AND collection_id = OLD.collection_id AND path <> '' AND links = 0;
END;

DROP TRIGGER record_refs_counted_of_account;
CREATE TRIGGER record_refs_counted_of_account AFTER UPDATE OF status ON dids
WHEN (OLD.status <> 0) <> (NEW.status <> 0)
    AND NOT EXISTS (SELECT 1 FROM record_counts WHERE collection_id = 0 AND slot = -1 AND records = 1) BEGIN
    UPDATE link_counts SET hidden = hidden + iif(NEW.status <> 0, 1, -1) * v.n
    FROM (SELECT f.target, f.collection_id, p.value AS path, count(*) AS n
        FROM collections k CROSS JOIN records r CROSS JOIN record_refs f CROSS JOIN link_counts c CROSS JOIN
            json_each('[""' || iif(f.paths <> '', ',"' || replace(f.paths, ' ', '","') || '"', '') || ']') p
        WHERE r.collection_id = k.id AND r.did_id = NEW.id AND f.record_id = r.id AND f.did_id = NEW.id
            AND c.target = f.target AND c.collection_id = f.collection_id AND c.path = ''
        GROUP BY 1, 2, 3) v
    WHERE link_counts.target = v.target AND link_counts.collection_id = v.collection_id AND link_counts.path = v.path;
END;
