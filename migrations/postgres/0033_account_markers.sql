-- Accounts that were deleted: commits of the repo up to this rev are neither kept nor indexed. Newer ones are those of an
-- account that was created again. Pruned with the tombstones of records.
CREATE TABLE repo_tombstones (
    did_id BIGINT PRIMARY KEY,
    rev BIGINT NOT NULL,
    deleted_at BIGINT NOT NULL
);

CREATE INDEX repo_tombstones_age ON repo_tombstones (deleted_at);

-- Repos whose records may differ from the index without a commit in the stream. Written in the transaction that moves the
-- stream's cursor past the marker; removed by the one that creates the backfill.
CREATE TABLE repo_repairs (
    did_id BIGINT PRIMARY KEY,
    requested_at BIGINT NOT NULL
);

-- Which were requested first.
CREATE INDEX repo_repairs_age ON repo_repairs (requested_at);

-- What is purged with an account.
CREATE INDEX dead_letters_did ON dead_letters (did);
