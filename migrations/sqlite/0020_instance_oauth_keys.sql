-- Keys with which the instance authenticates to authorization servers (private_key_jwt). The newest is the current one; an
-- older one is published and used as long as sessions began with it. status: current, retiring, revoked (published until its
-- sessions are ended). The first is the key oauth-client of instance_keys, which stays there for hosts of the version before.
CREATE TABLE instance_oauth_keys (
    kid TEXT PRIMARY KEY,
    sealed BLOB NOT NULL,
    public_jwk TEXT NOT NULL,
    status TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    retired_at INTEGER
) STRICT;
-- One key signs what is new.
CREATE UNIQUE INDEX instance_oauth_keys_current ON instance_oauth_keys (status) WHERE status = 'current';
-- Counts and ends the sessions of a key.
CREATE INDEX oauth_sessions_kid ON oauth_sessions (assertion_kid);
