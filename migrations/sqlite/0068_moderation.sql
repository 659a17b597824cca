-- Decisions of operators to hide or take down a record or an account here (docs/adr/0127). subject: an AT URI or a DID. A lifted
-- decision stays, so that the table is also the history; a subject has one decision at most that is not lifted.
CREATE TABLE moderation (
    id INTEGER PRIMARY KEY,
    subject TEXT NOT NULL,
    action TEXT NOT NULL,
    reason TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    lifted_at INTEGER,
    lifted_by TEXT,
    lift_reason TEXT
) STRICT;

-- The history of a subject.
CREATE INDEX moderation_subject ON moderation (subject, id);
-- The decision in force on a subject.
CREATE UNIQUE INDEX moderation_active ON moderation (subject) WHERE lifted_at IS NULL;
-- Those in force, newest first.
CREATE INDEX moderation_open ON moderation (id) WHERE lifted_at IS NULL;
-- Those that end by themselves.
CREATE INDEX moderation_expiry ON moderation (expires_at) WHERE lifted_at IS NULL AND expires_at IS NOT NULL;

-- Records that are moderated: their rows are here instead of in records, so that reads need no condition. record: NULL while
-- the repo has no such record; rev is then that of its deletion, or 0. is_readable: whether its URI still answers.
CREATE TABLE hidden_records (
    collection_id INTEGER NOT NULL,
    did_id INTEGER NOT NULL,
    rkey TEXT NOT NULL,
    is_readable INTEGER NOT NULL,
    cid BLOB,
    cid_verified INTEGER NOT NULL,
    rev INTEGER NOT NULL,
    indexed_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    record TEXT,
    invalid_reason TEXT,
    PRIMARY KEY (collection_id, did_id, rkey)
) STRICT, WITHOUT ROWID;

-- Those of an account that is deleted.
CREATE INDEX hidden_records_did ON hidden_records (did_id);

-- The status in the network of an account that is moderated here, whose status is then the operator's: 5 taken down, 6 hidden. NULL
-- while it is not moderated.
ALTER TABLE dids ADD COLUMN network_status INTEGER;
