-- Handles and PDSs of accounts, as they were looked up. handle: verified both ways, NULL without such a handle. known_at: the time at which
-- the DID document was fetched, or of the identity event that cleared both. A write with an older document changes nothing.
CREATE TABLE account_identities (
    did_id INTEGER PRIMARY KEY,
    handle TEXT,
    pds TEXT,
    known_at INTEGER NOT NULL
) STRICT;

-- The account of a handle: for the view accounts of scripts, and to take a handle from the account that had it before.
CREATE INDEX account_identities_handle ON account_identities (handle) WHERE handle IS NOT NULL;
