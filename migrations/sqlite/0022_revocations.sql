-- Sessions that have ended here and are not yet revoked at their authorization servers. A row has everything that the
-- revocation needs, because the session, its DPoP key and perhaps its API client are deleted. id: the session's.
-- client_id: the API client; NULL for a login at the instance. sealed, sealed_key: tokens and DPoP key, sealed as before
-- under key_id. sealed_client_key, public_jwk: the key of assertion_kid, if it belongs to an API client. due_at: when the
-- next attempt may begin; while one runs, when another host may take over.
CREATE TABLE revocations (
    id TEXT PRIMARY KEY,
    client_id TEXT,
    issuer TEXT NOT NULL,
    oauth_client_id TEXT NOT NULL,
    assertion_kid TEXT,
    key_id TEXT NOT NULL,
    sealed BLOB NOT NULL,
    sealed_key BLOB NOT NULL,
    sealed_client_key BLOB,
    public_jwk TEXT,
    attempts INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    give_up_at INTEGER NOT NULL
) STRICT;
-- What is due (store/revocations.rs: due).
CREATE INDEX revocations_due ON revocations (due_at);
-- The keys to publish (store/revocations.rs: public_keys).
CREATE INDEX revocations_client ON revocations (client_id);
