-- Modules of plugins by their SHA-256 (lower-case hex), so that a restart and other hosts download nothing. Those that no
-- plugin uses any more are removed.
CREATE TABLE plugin_files (
    sha256 TEXT COLLATE "C" PRIMARY KEY,
    bytes BYTEA NOT NULL,
    created_at BIGINT NOT NULL
);

-- The installed plugins. source: url, upload, file, environment. url: as given. pinned: the module's hash was given, and a
-- reload takes no other. manifest: the JSON text. requested, granted: JSON arrays of permissions.
-- status: active, paused (it trapped too often), removing (its accounts' tokens are being revoked).
CREATE TABLE plugins (
    id TEXT COLLATE "C" PRIMARY KEY,
    source TEXT NOT NULL,
    url TEXT,
    module_sha256 TEXT NOT NULL,
    manifest_sha256 TEXT NOT NULL,
    pinned BOOLEAN NOT NULL,
    manifest TEXT NOT NULL,
    requested TEXT NOT NULL,
    granted TEXT NOT NULL,
    status TEXT NOT NULL,
    traps BIGINT NOT NULL,
    last_error TEXT,
    installed_by TEXT,
    installed_at BIGINT NOT NULL,
    loaded_at BIGINT NOT NULL
);

-- Secrets that the operator set. key without the prefix PLUGIN_<ID>_. They outlive the plugin, for a reinstall.
CREATE TABLE plugin_secrets (
    plugin_id TEXT NOT NULL,
    key TEXT NOT NULL,
    sealed BYTEA NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (plugin_id, key)
);

-- Values that plugins keep. scope: flow (owner: hash of the state), account (owner: DID), plugin (owner: empty).
CREATE TABLE plugin_values (
    plugin_id TEXT NOT NULL,
    scope TEXT NOT NULL,
    owner TEXT NOT NULL,
    key TEXT NOT NULL,
    value BYTEA NOT NULL,
    expires_at BIGINT,
    PRIMARY KEY (plugin_id, scope, owner, key)
);
-- The sweep of expired values.
CREATE INDEX plugin_values_expires_at ON plugin_values (expires_at) WHERE expires_at IS NOT NULL;

-- Accounts at other services that users have linked. access_token, refresh_token, config: sealed. collections: JSON array of
-- those that the user consented to. oauth_session_id: the session with the user's PDS through which records are written.
-- status: linked, expired (the service no longer accepts the tokens), unlinking (the tokens are being revoked).
-- lease_until, lease_holder: who refreshes the tokens or syncs.
-- sync_status: idle, running. sync_cursor: the next page, NULL at the start. sync_processed, sync_written: items of this run.
CREATE TABLE external_accounts (
    id TEXT COLLATE "C" PRIMARY KEY,
    did TEXT NOT NULL,
    plugin_id TEXT NOT NULL,
    account_id TEXT NOT NULL,
    display_name TEXT,
    profile_url TEXT,
    avatar_url TEXT,
    access_token BYTEA NOT NULL,
    refresh_token BYTEA,
    token_type TEXT NOT NULL,
    scope TEXT,
    expires_at BIGINT,
    config BYTEA NOT NULL,
    collections TEXT NOT NULL,
    oauth_session_id TEXT,
    status TEXT NOT NULL,
    lease_holder TEXT,
    lease_until BIGINT,
    sync_status TEXT NOT NULL,
    sync_cursor TEXT,
    sync_processed BIGINT NOT NULL,
    sync_written BIGINT NOT NULL,
    sync_error TEXT,
    synced_at BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    UNIQUE (did, plugin_id)
);
-- All accounts of a plugin, when it is removed.
CREATE INDEX external_accounts_plugin_id ON external_accounts (plugin_id, id);
-- Syncs to go on with after a crash.
CREATE INDEX external_accounts_syncing ON external_accounts (lease_until) WHERE sync_status = 'running';

-- Sign-ins at other services that have begun. state: SHA-256 hex of the state. browser: SHA-256 hex of the cookie of the
-- browser that began, NULL until it opened the page.
CREATE TABLE external_auth_states (
    state TEXT COLLATE "C" PRIMARY KEY,
    did TEXT NOT NULL,
    plugin_id TEXT NOT NULL,
    redirect_uri TEXT NOT NULL,
    client_id TEXT,
    oauth_session_id TEXT,
    browser TEXT,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX external_auth_states_expires_at ON external_auth_states (expires_at);
-- The bound per user.
CREATE INDEX external_auth_states_did ON external_auth_states (did);
