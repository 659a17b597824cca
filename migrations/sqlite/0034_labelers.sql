-- The labelers whose labels are stored. status: active, paused, deleting (its labels are being removed). cursor: the
-- number of the last message whose labels are stored. is_connected, last_error, last_error_at: as the host that follows
-- the labelers saw it last.
CREATE TABLE labelers (
    did TEXT PRIMARY KEY,
    status TEXT NOT NULL,
    cursor INTEGER,
    is_connected INTEGER NOT NULL,
    last_error TEXT,
    last_error_at INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The sweep of expired labels.
CREATE INDEX labels_exp ON labels (exp) WHERE exp IS NOT NULL;
