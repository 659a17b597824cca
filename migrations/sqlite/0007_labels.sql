-- What labelers said: the newest word of each (src) about each subject (uri: a DID or an AT URI) and value. A negation
-- stays as a row, so that an older label that comes late can't bring back what was withdrawn. cts, exp: when it was said,
-- and until when it holds.
CREATE TABLE labels (
    uri TEXT NOT NULL,
    src TEXT NOT NULL,
    val TEXT NOT NULL,
    cid TEXT,
    neg INTEGER NOT NULL,
    cts INTEGER NOT NULL,
    exp INTEGER,
    PRIMARY KEY (uri, src, val)
) STRICT, WITHOUT ROWID;

-- Everything of a labeler that is unsubscribed.
CREATE INDEX labels_src ON labels (src);

-- Keys that the instance made for itself, sealed under TOKEN_ENCRYPTION_KEY.
CREATE TABLE instance_keys (
    name TEXT PRIMARY KEY,
    sealed BLOB NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
