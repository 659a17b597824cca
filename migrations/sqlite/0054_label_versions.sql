-- A label for one version of a record is a row of its own: behind its value val has U+001F, which no value can contain, and
-- the cid (docs/adr/0092). A longer key would break servers of the version before. What those store has a cid and the value
-- alone; the host that follows the labelers gives it the form of the others, and finds it here.
CREATE INDEX labels_of_before ON labels (uri, src, val) WHERE cid IS NOT NULL AND instr(val, char(31)) = 0;

-- cts is at most the time of receipt. dated_ahead: the labeler's cts was far ahead of that, so it says nothing about the
-- order, and any later label with the same key replaces this one.
ALTER TABLE labels ADD COLUMN dated_ahead INTEGER;
UPDATE labels SET cts = CAST(unixepoch('subsec') * 1000000 AS INTEGER), dated_ahead = 1
    WHERE cts > CAST(unixepoch('subsec') * 1000000 AS INTEGER) + 600000000;

-- The oldest unresolved letters of a label script, which give way to new ones.
CREATE INDEX dead_letters_labels ON dead_letters (script_ref, id) WHERE host_kind = 'label' AND resolved_at IS NULL;
