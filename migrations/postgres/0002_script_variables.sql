-- What scripts see as env. sealed: the value under TOKEN_ENCRYPTION_KEY.
CREATE TABLE script_variables (
    key TEXT PRIMARY KEY,
    sealed BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
