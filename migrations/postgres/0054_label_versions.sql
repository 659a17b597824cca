-- A label for one version of a record is a row of its own: behind its value val has U+001F, which no value can contain, and
-- the cid (docs/adr/0092). A longer key would break servers of the version before. What those store has a cid and the value
-- alone; the host that follows the labelers gives it the form of the others, and finds it here.
CREATE INDEX labels_of_before ON labels (uri, src, val) WHERE cid IS NOT NULL AND strpos(val, chr(31)) = 0;

-- cts is at most the time of receipt. dated_ahead: the labeler's cts was far ahead of that, so it says nothing about the
-- order, and any later label with the same key replaces this one.
ALTER TABLE labels ADD COLUMN dated_ahead BOOLEAN;
UPDATE labels SET cts = (extract(epoch FROM now()) * 1000000)::bigint, dated_ahead = true
    WHERE cts > (extract(epoch FROM now()) * 1000000)::bigint + 600000000;

-- The oldest unresolved letters of a label script, which give way to new ones.
CREATE INDEX dead_letters_labels ON dead_letters (script_ref, id) WHERE host_kind = 'label' AND resolved_at IS NULL;

-- Those in force.
CREATE OR REPLACE VIEW script_views.labels AS
SELECT src, uri, CASE WHEN cid IS NULL THEN val ELSE split_part(val, chr(31), 1) END AS val, cid,
    script_views.time_text(cts) AS cts, script_views.time_text(exp) AS exp
FROM labels WHERE NOT neg AND (exp IS NULL OR exp > (extract(epoch FROM now()) * 1000000)::bigint);
