-- Accounts that several people write for, within one API client. role: owner, admin, member; every linked account has one
-- owner, who linked it.
CREATE TABLE account_delegates (
    client_id TEXT NOT NULL REFERENCES api_clients (id) ON DELETE CASCADE,
    account_did TEXT COLLATE "C" NOT NULL,
    user_did TEXT COLLATE "C" NOT NULL,
    role TEXT NOT NULL,
    granted_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (client_id, account_did, user_did)
);
-- An account is linked once in a client.
CREATE UNIQUE INDEX account_delegates_owner ON account_delegates (client_id, account_did) WHERE role = 'owner';
-- What one user writes for.
CREATE INDEX account_delegates_user ON account_delegates (client_id, user_did);
