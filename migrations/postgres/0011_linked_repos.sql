-- Repos that their owners let the instance write to. did: null until an open grant is authorized. scopes: space-separated.
-- scripts: the triggers that may use it, a JSON list; empty for all but queries without a caller. status: pending, active,
-- needs_reauth.
CREATE TABLE linked_repos (
    id TEXT COLLATE "C" PRIMARY KEY,
    did TEXT COLLATE "C" UNIQUE,
    handle TEXT,
    reason TEXT,
    scopes TEXT NOT NULL,
    scripts TEXT NOT NULL,
    status TEXT NOT NULL,
    last_error TEXT,
    session_id TEXT COLLATE "C" REFERENCES oauth_sessions (id) ON DELETE SET NULL,
    last_refreshed_at BIGINT,
    authorized_at BIGINT,
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX linked_repos_session ON linked_repos (session_id);

-- Links that somebody was given to authorize a grant. id: SHA-256 hex of the link's token.
CREATE TABLE linked_repo_invites (
    id TEXT COLLATE "C" PRIMARY KEY,
    grant_id TEXT COLLATE "C" NOT NULL REFERENCES linked_repos (id) ON DELETE CASCADE,
    expires_at BIGINT NOT NULL
);
CREATE INDEX linked_repo_invites_grant ON linked_repo_invites (grant_id);
