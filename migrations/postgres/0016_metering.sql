-- OAuth flows under way are counted by who began them and where they go, so that nobody fills the table. sender: the
-- network of the caller; target: the domain of the authorization server. Texts of fair_share::Tenant.
ALTER TABLE oauth_states ADD COLUMN sender TEXT NOT NULL DEFAULT '';
ALTER TABLE oauth_states ADD COLUMN target TEXT NOT NULL DEFAULT '';
-- store::oauth_states: prune, and the bound of the whole table.
CREATE INDEX oauth_states_expiry ON oauth_states (expires_at);
-- store::oauth_states: the bounds of a sender and of a target.
CREATE INDEX oauth_states_sender ON oauth_states (sender);
CREATE INDEX oauth_states_target ON oauth_states (target, expires_at);

-- store::oauth_sessions::delete_over
CREATE INDEX oauth_sessions_expiry ON oauth_sessions (expires_at) WHERE refreshable = FALSE;
CREATE INDEX oauth_sessions_renewal ON oauth_sessions (updated_at);
