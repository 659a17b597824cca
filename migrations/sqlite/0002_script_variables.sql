-- What scripts see as env. sealed: the value under TOKEN_ENCRYPTION_KEY.
CREATE TABLE script_variables (
    key TEXT PRIMARY KEY,
    sealed BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
