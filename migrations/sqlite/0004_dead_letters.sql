-- Events whose script failed. event_key: the script and the event, so that an event that comes twice is one letter.
-- host_kind: record or label. rev, cid: of the commit, for records. payload: JSON text of the record or the label.
CREATE TABLE dead_letters (
    id INTEGER PRIMARY KEY,
    event_key TEXT NOT NULL UNIQUE,
    script_ref TEXT NOT NULL,
    host_kind TEXT NOT NULL,
    host_id TEXT NOT NULL,
    lexicon_id TEXT NOT NULL,
    collection TEXT NOT NULL,
    uri TEXT NOT NULL,
    did TEXT NOT NULL,
    rkey TEXT NOT NULL,
    action TEXT NOT NULL,
    rev TEXT,
    cid TEXT,
    payload TEXT,
    error TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    resolved_at INTEGER
) STRICT;

-- Lists and counts of what is still to be looked at.
CREATE INDEX dead_letters_open ON dead_letters (id) WHERE resolved_at IS NULL;
-- The same of one collection.
CREATE INDEX dead_letters_collection ON dead_letters (collection, id);
-- The retention sweep.
CREATE INDEX dead_letters_resolved ON dead_letters (resolved_at) WHERE resolved_at IS NOT NULL;
