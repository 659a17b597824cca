-- What labelers said: the newest word of each (src) about each subject (uri: a DID or an AT URI) and value. A negation
-- stays as a row, so that an older label that comes late can't bring back what was withdrawn. cts, exp: when it was said,
-- and until when it holds.
CREATE TABLE labels (
    uri TEXT COLLATE "C" NOT NULL,
    src TEXT COLLATE "C" NOT NULL,
    val TEXT COLLATE "C" NOT NULL,
    cid TEXT,
    neg BOOLEAN NOT NULL,
    cts BIGINT NOT NULL,
    exp BIGINT,
    PRIMARY KEY (uri, src, val)
);

-- Everything of a labeler that is unsubscribed.
CREATE INDEX labels_src ON labels (src);

-- Keys that the instance made for itself, sealed under TOKEN_ENCRYPTION_KEY.
CREATE TABLE instance_keys (
    name TEXT COLLATE "C" PRIMARY KEY,
    sealed BYTEA NOT NULL,
    created_at BIGINT NOT NULL
);
