-- Handles and PDSs of accounts, as they were looked up. handle: verified both ways, NULL without such a handle. known_at: the time at which
-- the DID document was fetched, or of the identity event that cleared both. A write with an older document changes nothing.
CREATE TABLE account_identities (
    did_id BIGINT PRIMARY KEY,
    handle TEXT COLLATE "C",
    pds TEXT COLLATE "C",
    known_at BIGINT NOT NULL
);

-- The account of a handle: for the view accounts of scripts, and to take a handle from the account that had it before.
CREATE INDEX account_identities_handle ON account_identities (handle) WHERE handle IS NOT NULL;

-- The accounts of which a record is or was indexed here. Hidden ones are not in it, so the status is always the same.
CREATE VIEW script_views.accounts AS
SELECT d.did, i.handle, 'active'::text COLLATE "C" AS status, i.pds
FROM dids d LEFT JOIN account_identities i ON i.did_id = d.id WHERE d.status = 0;
