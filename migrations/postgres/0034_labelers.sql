-- The labelers whose labels are stored. status: active, paused, deleting (its labels are being removed). cursor: the
-- number of the last message whose labels are stored. is_connected, last_error, last_error_at: as the host that follows
-- the labelers saw it last.
CREATE TABLE labelers (
    did TEXT COLLATE "C" PRIMARY KEY,
    status TEXT NOT NULL,
    cursor BIGINT,
    is_connected BOOLEAN NOT NULL,
    last_error TEXT,
    last_error_at BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

-- The sweep of expired labels.
CREATE INDEX labels_exp ON labels (exp) WHERE exp IS NOT NULL;
