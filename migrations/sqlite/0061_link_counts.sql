-- How many records of a collection refer to a target, for targets with many (docs/adr/0120): once for each place where the reference
-- is, and once with an empty path for all places. The writer of references adds to the numbers, and triggers take from them, in the
-- transactions that change references; `links` includes the records of hidden accounts, which `hidden` counts. A target is counted
-- from its row with the empty path on.
CREATE TABLE link_counts (
    target TEXT NOT NULL,
    collection_id INTEGER NOT NULL,
    path TEXT NOT NULL,
    links INTEGER NOT NULL,
    hidden INTEGER NOT NULL,
    PRIMARY KEY (target, collection_id, path)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER record_refs_counted_out AFTER DELETE ON record_refs
WHEN EXISTS (SELECT 1 FROM link_counts c
    WHERE c.target = OLD.target AND c.collection_id = OLD.collection_id AND c.path = '') BEGIN
    UPDATE link_counts SET links = links - 1,
        hidden = hidden - EXISTS (SELECT 1 FROM dids WHERE id = OLD.did_id AND status <> 0)
    WHERE target = OLD.target AND collection_id = OLD.collection_id AND path IN (SELECT value
        FROM json_each('[""' || iif(OLD.paths <> '', ',"' || replace(OLD.paths, ' ', '","') || '"', '') || ']'));
    DELETE FROM link_counts
    WHERE target = OLD.target AND collection_id = OLD.collection_id AND path <> '' AND links = 0;
END;

CREATE TRIGGER record_refs_counted_of_account AFTER UPDATE OF status ON dids
WHEN (OLD.status <> 0) <> (NEW.status <> 0) BEGIN
    UPDATE link_counts SET hidden = hidden + iif(NEW.status <> 0, 1, -1) * v.n
    FROM (SELECT f.target, f.collection_id, p.value AS path, count(*) AS n
        FROM collections k CROSS JOIN records r CROSS JOIN record_refs f CROSS JOIN link_counts c CROSS JOIN
            json_each('[""' || iif(f.paths <> '', ',"' || replace(f.paths, ' ', '","') || '"', '') || ']') p
        WHERE r.collection_id = k.id AND r.did_id = NEW.id AND f.record_id = r.id AND f.did_id = NEW.id
            AND c.target = f.target AND c.collection_id = f.collection_id AND c.path = ''
        GROUP BY 1, 2, 3) v
    WHERE link_counts.target = v.target AND link_counts.collection_id = v.collection_id AND link_counts.path = v.path;
END;
