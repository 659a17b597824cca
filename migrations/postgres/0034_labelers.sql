-- The labelers whose labels are stored. status: active, paused, deleting (its labels are being removed). cursor: the
-- number of the last message whose labels are stored. connection: the id of the open connection, so that only the host
-- that opened it says that it has ended.
CREATE TABLE labelers (
    did TEXT COLLATE "C" PRIMARY KEY,
    status TEXT NOT NULL,
    cursor BIGINT,
    connection TEXT,
    last_error TEXT,
    last_error_at BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

-- The sweep of expired labels.
CREATE INDEX labels_exp ON labels (exp) WHERE exp IS NOT NULL;
