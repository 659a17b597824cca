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
-- What is kept for sign-ins, which expires with them.
CREATE INDEX plugin_values_flows ON plugin_values (expires_at) WHERE scope = 'flow';

-- Accounts at other services that users have linked. access_token, refresh_token, config: sealed. collections: JSON array of
-- those that the user consented to. oauth_session_id: the session with the user's PDS that linked the account.
-- tenant: whose share the account's calls take. status: linked, expired (the service no longer accepts the tokens),
-- unlinking (the tokens are being revoked). version: of the tokens. refresh_until: until when a host refreshes them.
-- attempts, due_at, give_up_at: of the revocation.
-- sync_status: idle, running. sync_run: the number of the last run. sync_run_started_at: when that began. sync_session_id: the
-- session with the user's PDS through which it writes. sync_started_at: when the first page was read, maybe in an earlier run.
-- sync_holder, sync_until: which host writes a page, until when. sync_due_at: when the next page is read. sync_cursor: the next
-- page, NULL at the start. sync_reached: items of that page that a turn has written before its time was over. sync_pages,
-- sync_processed, sync_written, sync_skipped: of the run. sync_attempts: how often the next page was begun, without the attempts
-- that count for nothing. sync_error: of the last attempt. sync_note: why the first item was skipped.
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
    tenant TEXT NOT NULL,
    status TEXT NOT NULL,
    version BIGINT NOT NULL,
    refresh_until BIGINT,
    attempts BIGINT NOT NULL,
    due_at BIGINT,
    give_up_at BIGINT,
    sync_status TEXT NOT NULL,
    sync_run BIGINT NOT NULL,
    sync_run_started_at BIGINT,
    sync_session_id TEXT,
    sync_started_at BIGINT,
    sync_holder TEXT,
    sync_until BIGINT,
    sync_due_at BIGINT,
    sync_cursor TEXT,
    sync_reached BIGINT NOT NULL DEFAULT 0,
    sync_pages BIGINT NOT NULL,
    sync_processed BIGINT NOT NULL,
    sync_written BIGINT NOT NULL,
    sync_skipped BIGINT NOT NULL,
    sync_attempts BIGINT NOT NULL,
    sync_error TEXT,
    sync_note TEXT,
    synced_at BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
-- A user links one account of each plugin. Beside it there may be former ones whose tokens are being revoked.
CREATE UNIQUE INDEX external_accounts_linked ON external_accounts (did, plugin_id) WHERE status <> 'unlinking';
-- All accounts of a plugin, when it is removed.
CREATE INDEX external_accounts_plugin_id ON external_accounts (plugin_id, id);
-- Syncs whose next page is due.
CREATE INDEX external_accounts_syncing ON external_accounts (sync_due_at) WHERE sync_status = 'running';
-- Revocations that are due.
CREATE INDEX external_accounts_unlinking ON external_accounts (due_at) WHERE status = 'unlinking';

-- Sign-ins at other services that have begun. state: SHA-256 hex of the state. collections: JSON array of those that the
-- user consents to. browser: SHA-256 hex of the cookie of the browser in which the user consented, NULL until then.
CREATE TABLE external_auth_states (
    state TEXT COLLATE "C" PRIMARY KEY,
    did TEXT NOT NULL,
    plugin_id TEXT NOT NULL,
    redirect_uri TEXT NOT NULL,
    collections TEXT NOT NULL,
    oauth_session_id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    browser TEXT,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX external_auth_states_expires_at ON external_auth_states (expires_at);
-- The bound per user and plugin.
CREATE INDEX external_auth_states_did ON external_auth_states (did, plugin_id);
