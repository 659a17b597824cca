-- Spaces of other hosts, and copies of repos of other hosts (docs/adr/0115).

-- copied_bytes: of the records, at most, if the repo is at another host and this is what was read of it; NULL for a repo that is here.
ALTER TABLE space_repos ADD COLUMN copied_bytes BIGINT;

-- host: the DID of the host that has the repo, if it has named itself; the PDS of the author otherwise. pull_at: when the repo is
-- read again; NULL for one that is here, or whose copy has this rev. failures: since it was last read.
ALTER TABLE space_writers ADD COLUMN host TEXT COLLATE "C";
ALTER TABLE space_writers ADD COLUMN pull_at BIGINT;
ALTER TABLE space_writers ADD COLUMN failures BIGINT NOT NULL DEFAULT 0;
-- Repos that are due.
CREATE INDEX space_writers_pull_at ON space_writers (pull_at) WHERE pull_at IS NOT NULL;

-- The list of another host may have a rev twice.
DROP INDEX space_writers_space_rev;
CREATE INDEX space_writers_space_rev ON space_writers (space_id, space_rev);

-- seen_rev: the last space rev in a notice. cursor: up to which the list of repos was read. is_complete: since it was read to its
-- end for the first time, with the repos in it. registered_until: how long its host sends notices. check_at: when the list is read next.
-- failures: since it was last read. Nothing has written to the table before.
DROP TABLE space_follows;
CREATE TABLE space_follows (
    space_id BIGINT PRIMARY KEY,
    seen_rev TEXT COLLATE "C",
    cursor TEXT,
    is_complete BOOLEAN NOT NULL,
    registered_until BIGINT NOT NULL,
    check_at BIGINT NOT NULL,
    failures BIGINT NOT NULL
);
-- Spaces that are due.
CREATE INDEX space_follows_check_at ON space_follows (check_at);

-- The accounts for whom a space of another host is followed. refused_at: when its host last refused a credential to the account; 0
-- for never.
CREATE TABLE space_followers (
    space_id BIGINT NOT NULL,
    did TEXT COLLATE "C" NOT NULL,
    refused_at BIGINT NOT NULL,
    PRIMARY KEY (space_id, did)
);
-- The spaces of an account.
CREATE INDEX space_followers_did ON space_followers (did);
