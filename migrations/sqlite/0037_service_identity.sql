-- The identity under which other servers know the instance, once it has been set up: one row. mode: did_web, did_plc,
-- attach_account, not_exposed. signing_key and rotation_key are sealed scalars of P-256.
-- attached_session_id: the session (oauth_sessions) with the PDS of the attached account.
CREATE TABLE service_identity (
    singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
    mode TEXT NOT NULL,
    did TEXT,
    signing_key BLOB,
    rotation_key BLOB,
    attached_account_did TEXT,
    attached_session_id TEXT,
    setup_complete INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

-- Services in the instance's DID document. access_mode: all, allowlist (the methods of service_entry_xrpcs), disabled.
CREATE TABLE service_entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    fragment_id TEXT NOT NULL UNIQUE,
    service_type TEXT NOT NULL,
    access_mode TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

CREATE TABLE service_entry_xrpcs (
    entry_id INTEGER NOT NULL REFERENCES service_entries (id) ON DELETE CASCADE,
    nsid TEXT NOT NULL,
    PRIMARY KEY (entry_id, nsid)
) STRICT, WITHOUT ROWID;

-- Further keys in the instance's DID document. A deleted one stays without its private key, so that the next update of the
-- document at the PLC directory can take it out.
CREATE TABLE verification_methods (
    id TEXT PRIMARY KEY,
    fragment_id TEXT NOT NULL,
    public_key_multibase TEXT NOT NULL,
    sealed BLOB,
    created_at INTEGER NOT NULL,
    deleted_at INTEGER
) STRICT;
CREATE UNIQUE INDEX verification_methods_fragment ON verification_methods (fragment_id) WHERE deleted_at IS NULL;

-- The browser session that a login with the attached account interrupts: the browser returns to it afterwards.
ALTER TABLE web_sessions ADD COLUMN returns_to TEXT;
