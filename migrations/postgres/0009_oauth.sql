-- OAuth: keys, sessions with users' PDSs, and what protects them.

-- DPoP keys, of applications (client_id) and of the instance's own logins (no client). id: the provision id. sealed: the
-- private key under TOKEN_ENCRYPTION_KEY. did: the account that the first session was registered for.
CREATE TABLE dpop_keys (
    id TEXT COLLATE "C" PRIMARY KEY,
    client_id TEXT REFERENCES api_clients (id) ON DELETE CASCADE,
    thumbprint TEXT COLLATE "C" NOT NULL UNIQUE,
    sealed BYTEA NOT NULL,
    pkce_challenge TEXT,
    did TEXT,
    created_at BIGINT NOT NULL
);
CREATE INDEX dpop_keys_client ON dpop_keys (client_id);
CREATE INDEX dpop_keys_unused ON dpop_keys (created_at) WHERE did IS NULL;

-- One session for each key. token_hash: SHA-256 hex of the access token that was registered, which the application goes
-- on presenting. oauth_client_id: who we are to the authorization server. sealed: the tokens. version: counts up with
-- every change of the tokens. lease_until: until when somebody is refreshing them.
CREATE TABLE oauth_sessions (
    id TEXT COLLATE "C" PRIMARY KEY,
    key_id TEXT COLLATE "C" NOT NULL UNIQUE REFERENCES dpop_keys (id) ON DELETE CASCADE,
    client_id TEXT REFERENCES api_clients (id) ON DELETE CASCADE,
    did TEXT COLLATE "C" NOT NULL,
    scopes TEXT NOT NULL,
    token_hash TEXT NOT NULL,
    pds TEXT NOT NULL,
    issuer TEXT NOT NULL,
    oauth_client_id TEXT NOT NULL,
    assertion_kid TEXT,
    sealed BYTEA NOT NULL,
    refreshable BOOLEAN NOT NULL,
    expires_at BIGINT,
    version BIGINT NOT NULL,
    lease_until BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX oauth_sessions_did ON oauth_sessions (did, client_id, updated_at);
CREATE INDEX oauth_sessions_client ON oauth_sessions (client_id);

-- DPoP proofs that were used, until nobody would take them any more. id: half of a SHA-256 of key and jti.
CREATE TABLE used_proofs (
    id BYTEA PRIMARY KEY,
    expires_at BIGINT NOT NULL
);
CREATE INDEX used_proofs_expiry ON used_proofs (expires_at);

-- OAuth flows under way. id: SHA-256 hex of the state; sealed: what the callback needs to know.
CREATE TABLE oauth_states (
    id TEXT COLLATE "C" PRIMARY KEY,
    sealed BYTEA NOT NULL,
    expires_at BIGINT NOT NULL
);

-- Browsers that are logged in. id: SHA-256 hex of what the cookie holds.
CREATE TABLE web_sessions (
    id TEXT COLLATE "C" PRIMARY KEY,
    did TEXT COLLATE "C" NOT NULL,
    oauth_session_id TEXT COLLATE "C" NOT NULL REFERENCES oauth_sessions (id) ON DELETE CASCADE,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX web_sessions_did ON web_sessions (did);
CREATE INDEX web_sessions_session ON web_sessions (oauth_session_id);

-- Keys with which an API client authenticates to authorization servers (private_key_jwt). status: current, retiring.
CREATE TABLE api_client_keys (
    kid TEXT COLLATE "C" PRIMARY KEY,
    client_id TEXT NOT NULL REFERENCES api_clients (id) ON DELETE CASCADE,
    sealed BYTEA NOT NULL,
    public_jwk TEXT NOT NULL,
    status TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
-- One key signs what is new.
CREATE UNIQUE INDEX api_client_keys_current ON api_client_keys (client_id) WHERE status = 'current';
CREATE INDEX api_client_keys_client ON api_client_keys (client_id);

-- Origins that the instance is reached by.
CREATE TABLE domains (
    id TEXT COLLATE "C" PRIMARY KEY,
    url TEXT COLLATE "C" NOT NULL UNIQUE,
    is_primary BOOLEAN NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
-- One of them is the primary.
CREATE UNIQUE INDEX domains_primary ON domains (is_primary) WHERE is_primary;
