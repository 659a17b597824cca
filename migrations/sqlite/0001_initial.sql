-- The index. DIDs and collections are interned, an AT URI is assembled and never stored.

-- status: 0 active, 1 deactivated, 2 taken down, 3 suspended, 4 deleted. Rows of accounts that are not active are
-- invisible in every read.
CREATE TABLE dids (
    id INTEGER PRIMARY KEY,
    did TEXT NOT NULL UNIQUE,
    status INTEGER NOT NULL DEFAULT 0,
    status_changed_at INTEGER
) STRICT;

-- The few accounts whose rows have to be subtracted from counts.
CREATE INDEX dids_hidden ON dids (id) WHERE status <> 0;

CREATE TABLE collections (
    id INTEGER PRIMARY KEY,
    nsid TEXT NOT NULL UNIQUE
) STRICT;

-- cid: 36 binary bytes; rev: the TID of the commit as an integer; indexed_at: first seen, kept on update.
CREATE TABLE records (
    id INTEGER PRIMARY KEY,
    collection_id INTEGER NOT NULL,
    did_id INTEGER NOT NULL,
    rkey TEXT NOT NULL,
    cid BLOB,
    cid_verified INTEGER NOT NULL,
    rev INTEGER NOT NULL,
    indexed_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    record TEXT NOT NULL
) STRICT;

-- One record by its URI, and everything of one account in a collection.
CREATE UNIQUE INDEX records_key ON records (collection_id, did_id, rkey);
-- Lists of a collection, newest first. (SQLite ends every index with the row id, so `id` is part of it.)
CREATE INDEX records_list ON records (collection_id, indexed_at);
-- Lists of one account in a collection.
CREATE INDEX records_list_did ON records (collection_id, did_id, indexed_at);

-- The rev of deletions, so that a late older event can't bring a record back. Pruned after a week.
CREATE TABLE tombstones (
    collection_id INTEGER NOT NULL,
    did_id INTEGER NOT NULL,
    rkey TEXT NOT NULL,
    rev INTEGER NOT NULL,
    deleted_at INTEGER NOT NULL,
    PRIMARY KEY (collection_id, did_id, rkey)
) STRICT, WITHOUT ROWID;

CREATE INDEX tombstones_age ON tombstones (deleted_at);

-- Back links: which records (of which collection) name a target.
CREATE TABLE record_refs (
    target TEXT NOT NULL,
    collection_id INTEGER NOT NULL,
    record_id INTEGER NOT NULL,
    PRIMARY KEY (target, collection_id, record_id)
) STRICT, WITHOUT ROWID;

-- Replacing and dropping the references of a record.
CREATE INDEX record_refs_record ON record_refs (record_id);

-- Committed together with the records they cover.
CREATE TABLE stream_cursors (
    source TEXT PRIMARY KEY,
    cursor INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What admins manage.

CREATE TABLE lexicons (
    id TEXT PRIMARY KEY,
    revision INTEGER NOT NULL,
    lexicon_json TEXT NOT NULL,
    lexicon_type TEXT NOT NULL,
    backfill INTEGER NOT NULL,
    action TEXT,
    target_collection TEXT,
    source TEXT NOT NULL,
    authority_did TEXT,
    last_fetched_at INTEGER,
    token_cost INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

CREATE TABLE scripts (
    id TEXT PRIMARY KEY,
    script_type TEXT NOT NULL,
    body TEXT NOT NULL,
    description TEXT,
    outbound_xrpcs TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

CREATE TABLE users (
    id TEXT PRIMARY KEY,
    did TEXT NOT NULL UNIQUE,
    is_super INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    last_used_at INTEGER
) STRICT;

-- At most one super user, whatever races.
CREATE UNIQUE INDEX users_one_super ON users (is_super) WHERE is_super = 1;

CREATE TABLE user_permissions (
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    permission TEXT NOT NULL,
    PRIMARY KEY (user_id, permission)
) STRICT, WITHOUT ROWID;

-- Rows outlive their user, revoked. key_hash: SHA-256 of the whole key, hex. permissions: JSON array.
CREATE TABLE api_keys (
    id TEXT PRIMARY KEY,
    user_id TEXT NOT NULL,
    name TEXT NOT NULL,
    key_prefix TEXT NOT NULL,
    key_hash TEXT NOT NULL UNIQUE,
    permissions TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    last_used_at INTEGER,
    revoked_at INTEGER
) STRICT;

CREATE INDEX api_keys_user ON api_keys (user_id, created_at);

-- redirect_uris, allowed_origins: JSON arrays. scopes: space-separated. Rate limits: NULL is the instance default.
CREATE TABLE api_clients (
    id TEXT PRIMARY KEY,
    client_key TEXT NOT NULL UNIQUE,
    client_secret_hash TEXT,
    name TEXT NOT NULL,
    client_id_url TEXT NOT NULL UNIQUE,
    client_uri TEXT NOT NULL,
    redirect_uris TEXT NOT NULL,
    client_type TEXT NOT NULL,
    scopes TEXT NOT NULL,
    allowed_origins TEXT NOT NULL,
    rate_limit_capacity INTEGER,
    rate_limit_refill_rate REAL,
    is_active INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    parent_client_id TEXT REFERENCES api_clients (id) ON DELETE CASCADE,
    owner_did TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

CREATE INDEX api_clients_parent ON api_clients (parent_client_id);
CREATE INDEX api_clients_owner ON api_clients (owner_did);

-- Clustered by age: read newest first, swept oldest first. detail: JSON object.
CREATE TABLE events (
    created_at INTEGER NOT NULL,
    id TEXT NOT NULL,
    event_type TEXT NOT NULL,
    severity TEXT NOT NULL,
    actor_did TEXT,
    subject TEXT,
    detail TEXT NOT NULL,
    PRIMARY KEY (created_at, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX events_type ON events (event_type, created_at, id);

CREATE TABLE settings (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
