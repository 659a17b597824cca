-- Permissioned spaces (docs/adr/0111). Revs are TIDs as text, because the protocol compares them as text. cid, prev: 36 binary
-- bytes. A space that is deleted keeps its row here and no other one.

-- did: the authority in the address. kind: the NSID of the type. is_hosted: this instance is the authority; otherwise only the
-- address is known, and the policies mean nothing. read_policy, write_policy, app_access, config: JSON text. rev: that of the last
-- tracked write. deleted_at: since when the space answers that it is deleted. purged_at: since when its rows are gone.
CREATE TABLE spaces (
    id INTEGER PRIMARY KEY,
    did TEXT NOT NULL,
    kind TEXT NOT NULL,
    skey TEXT NOT NULL,
    creator_did TEXT NOT NULL,
    is_hosted INTEGER NOT NULL,
    display_name TEXT,
    description TEXT,
    read_policy TEXT NOT NULL,
    write_policy TEXT NOT NULL,
    app_access TEXT NOT NULL,
    config TEXT NOT NULL,
    rev TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deleted_at INTEGER,
    purged_at INTEGER,
    UNIQUE (did, kind, skey)
) STRICT;
-- The spaces that an account has created.
CREATE INDEX spaces_creator_did ON spaces (creator_did, id);
-- Deleted spaces that still have rows.
CREATE INDEX spaces_unpurged ON spaces (id) WHERE deleted_at IS NOT NULL AND purged_at IS NULL;

-- member: a DID, or the address of a space whose members are members here too (target_id). reads: nothing, own, everything.
CREATE TABLE space_members (
    space_id INTEGER NOT NULL,
    member TEXT NOT NULL,
    target_id INTEGER,
    reads TEXT NOT NULL,
    writes INTEGER NOT NULL,
    granted_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (space_id, member)
) STRICT;
-- The spaces of an account.
CREATE INDEX space_members_member ON space_members (member, space_id);
-- The spaces that include the members of another.
CREATE INDEX space_members_target_id ON space_members (target_id, space_id) WHERE target_id IS NOT NULL;
-- The spaces whose members one includes.
CREATE INDEX space_members_delegations ON space_members (space_id, target_id) WHERE target_id IS NOT NULL;

-- The repos whose records are here: of an author in a space. set_hash: the state of the hash over its records, 2048 bytes.
CREATE TABLE space_repos (
    space_id INTEGER NOT NULL,
    author TEXT NOT NULL,
    rev TEXT NOT NULL,
    set_hash BLOB NOT NULL,
    records INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (space_id, author)
) STRICT;
-- The repos of an account.
CREATE INDEX space_repos_author ON space_repos (author, space_id);

-- The repos that the space's host lists, here or elsewhere, as of their last tracked write. hash: the digest of the set hash.
CREATE TABLE space_writers (
    space_id INTEGER NOT NULL,
    author TEXT NOT NULL,
    rev TEXT NOT NULL,
    hash BLOB NOT NULL,
    space_rev TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (space_id, author)
) STRICT;
-- The list in the order of changes.
CREATE UNIQUE INDEX space_writers_space_rev ON space_writers (space_id, space_rev);
-- The entries of an account, when it is purged.
CREATE INDEX space_writers_author ON space_writers (author);

-- record: canonical JSON text, from which the block is encoded. rev: of the commit that wrote it.
CREATE TABLE space_records (
    space_id INTEGER NOT NULL,
    author TEXT NOT NULL,
    collection TEXT NOT NULL,
    rkey TEXT NOT NULL,
    cid BLOB NOT NULL,
    record TEXT NOT NULL,
    rev TEXT NOT NULL,
    indexed_at INTEGER NOT NULL,
    PRIMARY KEY (space_id, author, collection, rkey)
) STRICT;
-- Lists of all authors.
CREATE INDEX space_records_collection ON space_records (space_id, collection, rkey, author);

-- The blobs that records refer to. cid: text.
CREATE TABLE space_blobs (
    space_id INTEGER NOT NULL,
    author TEXT NOT NULL,
    cid TEXT NOT NULL,
    collection TEXT NOT NULL,
    rkey TEXT NOT NULL,
    PRIMARY KEY (space_id, author, cid, collection, rkey)
) STRICT, WITHOUT ROWID;
-- The blobs of a record, when it changes.
CREATE INDEX space_blobs_record ON space_blobs (space_id, author, collection, rkey);

-- Changes of records. idx: the number of the change in its commit. cid: NULL for a deletion. prev: NULL for a creation.
CREATE TABLE space_ops (
    space_id INTEGER NOT NULL,
    author TEXT NOT NULL,
    rev TEXT NOT NULL,
    idx INTEGER NOT NULL,
    collection TEXT NOT NULL,
    rkey TEXT NOT NULL,
    cid BLOB,
    prev BLOB,
    PRIMARY KEY (space_id, author, rev, idx)
) STRICT, WITHOUT ROWID;

-- Credentials that were issued here, and those that another authority has revoked (did is NULL).
CREATE TABLE space_credentials (
    space_id INTEGER NOT NULL,
    jti TEXT NOT NULL,
    did TEXT,
    expires_at INTEGER NOT NULL,
    revoked_at INTEGER,
    PRIMARY KEY (space_id, jti)
) STRICT, WITHOUT ROWID;
-- The credentials of a member, when they are revoked.
CREATE INDEX space_credentials_did ON space_credentials (did, space_id);
-- The sweep of expired ones.
CREATE INDEX space_credentials_expires_at ON space_credentials (expires_at);

-- token_hash: SHA-256 of the token. reads, writes: what a new member gets.
CREATE TABLE space_invites (
    id TEXT PRIMARY KEY,
    space_id INTEGER NOT NULL,
    token_hash BLOB NOT NULL UNIQUE,
    reads TEXT NOT NULL,
    writes INTEGER NOT NULL,
    max_uses INTEGER,
    uses INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    created_by TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
-- The invites of a space, newest first.
CREATE INDEX space_invites_space_id ON space_invites (space_id, created_at, id);

-- Attempts to accept an invite. They count from zero at resets_at.
CREATE TABLE space_invite_attempts (
    did TEXT PRIMARY KEY,
    attempts INTEGER NOT NULL,
    resets_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
-- The sweep of those that count no more.
CREATE INDEX space_invite_attempts_resets_at ON space_invite_attempts (resets_at);

-- Services that receive notices of writes; of a space of another host this is its authority. service: a DID with a fragment.
CREATE TABLE space_registrations (
    space_id INTEGER NOT NULL,
    service TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    registered_by TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    next_attempt_at INTEGER NOT NULL,
    PRIMARY KEY (space_id, service)
) STRICT;
-- The sweep of expired ones.
CREATE INDEX space_registrations_expires_at ON space_registrations (expires_at);
-- Services whose next attempt is due.
CREATE INDEX space_registrations_next_attempt_at ON space_registrations (next_attempt_at);

-- Notices that were not delivered yet: the last state of each repo.
CREATE TABLE space_deliveries (
    space_id INTEGER NOT NULL,
    service TEXT NOT NULL,
    author TEXT NOT NULL,
    rev TEXT NOT NULL,
    hash BLOB NOT NULL,
    space_rev TEXT,
    prev_space_rev TEXT,
    queued_at INTEGER NOT NULL,
    PRIMARY KEY (space_id, service, author)
) STRICT;
-- The sweep of those that were not delivered in time.
CREATE INDEX space_deliveries_queued_at ON space_deliveries (queued_at);

-- Spaces of other hosts whose changes this instance follows. seen_rev: the last space rev in a notice. cursor: up to which the
-- list of repos was read. checked_at: when it was last read.
CREATE TABLE space_follows (
    space_id INTEGER PRIMARY KEY,
    seen_rev TEXT,
    cursor TEXT,
    checked_at INTEGER NOT NULL
) STRICT;
-- Spaces that were not checked for longest.
CREATE INDEX space_follows_checked_at ON space_follows (checked_at);

-- Grants to operators who inspect the records of a space or of an account. scope: space (subject: its address), account (a DID).
CREATE TABLE space_inspections (
    id TEXT PRIMARY KEY,
    scope TEXT NOT NULL,
    subject TEXT NOT NULL,
    operator TEXT NOT NULL,
    reason TEXT NOT NULL,
    granted_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT;
-- The grants of an operator.
CREATE INDEX space_inspections_operator ON space_inspections (operator, scope, subject);
-- All grants, newest first.
CREATE INDEX space_inspections_created_at ON space_inspections (created_at, id);
