//! Reads the tables of a HappyView instance (its migrations up to 2026-10).
//!
//! Older versions lack columns, newer ones have the scripts in a table of their own, and since 2026-06 the names of tables begin with
//! `happyview_`.

use super::part::Part;
use super::parts::{self, flag, is_copied_setting, text};
use belvedere_storage::store::StoreError;
use belvedere_storage::store::foreign::{ForeignDb, ForeignRow};

/// Tables whose content stays behind, with the reason.
const LEFT: [(&str, &str); 16] = [
    (
        "records",
        "records: they come from the network, by backfills; a script that has saved its own has to save them again",
    ),
    ("plugins", "plugins: install them again, with their secrets"),
    ("plugin_configs", "secrets of plugins: enter them again"),
    ("external_account_tokens", "external accounts: their owners link them again"),
    ("oauth_sessions", "sessions of users: they log in again"),
    ("dpop_sessions", "sessions of applications: their users log in again"),
    (
        "oauth_client_keys",
        "keys that sign client assertions: create others (POST /admin/api-clients/{id}/auth-key)",
    ),
    ("service_identity", "service identity: its keys are sealed, set it up again"),
    ("verification_methods", "verification methods: their keys are sealed, create others"),
    ("jobs", "jobs: those that have not ended are started again by what has created them"),
    ("dead_letter_hooks", "dead letters"),
    ("dead_letter_scripts", "dead letters"),
    ("event_logs", "the event log"),
    ("spaces", "spaces and their records: their owners create them again"),
    ("blobs", "blobs of scripts: this server stores none"),
    ("delegated_accounts", "accounts that several users write for: their owners share them again"),
];

/// The rows of an instance.
#[derive(Debug, Default)]
pub(super) struct Instance {
    lexicons: Vec<ForeignRow>,
    scripts: Vec<ForeignRow>,
    variables: Vec<ForeignRow>,
    domains: Vec<ForeignRow>,
    settings: Vec<ForeignRow>,
    labelers: Vec<ForeignRow>,
    users: Vec<ForeignRow>,
    permissions: Vec<ForeignRow>,
    keys: Vec<ForeignRow>,
    services: Vec<ForeignRow>,
    service_methods: Vec<ForeignRow>,
    clients: Vec<ForeignRow>,
    linked_repos: Vec<ForeignRow>,
    /// The parts that can't be copied, with the reasons, for people.
    pub(super) left: Vec<String>,
}

/// The database, and what the names of its tables begin with.
struct Source<'a> {
    db: &'a mut ForeignDb,
    prefix: &'static str,
}

impl Source<'_> {
    /// The rows of a table, in the order of their texts.
    async fn rows(&mut self, table: &str, columns: &[&str]) -> Result<Vec<ForeignRow>, StoreError> {
        let mut rows = self.db.rows(&format!("{}{table}", self.prefix), columns).await?;
        rows.sort_unstable();
        Ok(rows)
    }

    async fn count(&mut self, table: &str) -> Result<u64, StoreError> {
        self.db.count(&format!("{}{table}", self.prefix)).await
    }
}

impl Instance {
    /// # Errors
    /// When the database can't be read, or does not look like that of a HappyView instance.
    pub(super) async fn read(db: &mut ForeignDb) -> anyhow::Result<Self> {
        let prefix = if db.has("happyview_lexicons").await? { "happyview_" } else { "" };
        let mut source = Source { db, prefix };
        let lexicons = [
            "id",
            "lexicon_json",
            "backfill",
            "target_collection",
            "action",
            "token_cost",
            "source",
            "script",
            "on_index_script",
            "index_hook",
        ];
        let clients = [
            "id",
            "client_key",
            "client_secret_hash",
            "name",
            "client_id_url",
            "client_uri",
            "redirect_uris",
            "scopes",
            "client_type",
            "allowed_origins",
            "rate_limit_capacity",
            "rate_limit_refill_rate",
            "is_active",
            "parent_client_id",
            "owner_did",
        ];
        let keys = ["user_id", "name", "key_prefix", "key_hash", "permissions", "revoked_at"];
        let services = ["id", "fragment_id", "service_type", "access_mode"];
        let mut instance = Self {
            lexicons: source.rows("lexicons", &lexicons).await?,
            scripts: source.rows("scripts", &["id", "body", "description", "script_type"]).await?,
            variables: source.rows("script_variables", &["key", "value"]).await?,
            domains: source.rows("domains", &["url", "is_primary"]).await?,
            settings: source.rows("instance_settings", &["key", "value"]).await?,
            labelers: source.rows("labeler_subscriptions", &["did", "status"]).await?,
            users: source.rows("users", &["id", "did", "is_super"]).await?,
            permissions: source.rows("user_permissions", &["user_id", "permission"]).await?,
            keys: source.rows("api_keys", &keys).await?,
            services: source.rows("service_entries", &services).await?,
            service_methods: source.rows("service_entry_xrpcs", &["service_entry_id", "lexicon_id"]).await?,
            clients: source.rows("api_clients", &clients).await?,
            linked_repos: source.rows("linked_repos", &["did", "reason", "label", "scopes"]).await?,
            left: Vec::new(),
        };
        if instance.lexicons.is_empty() && instance.users.is_empty() {
            anyhow::bail!("it has neither lexicons nor users: is it the database of a HappyView instance?");
        }
        instance.keys.retain(|key| !key.contains_key("revoked_at"));
        for (table, reason) in LEFT {
            let rows = source.count(table).await?;
            if rows > 0 {
                instance.left.push(format!("{rows} of {reason}"));
            }
        }
        let left = instance.left_behind();
        instance.left.extend(left);
        Ok(instance)
    }

    /// Rows of tables that are copied, and what belongs to a row, that stay behind.
    fn left_behind(&self) -> Vec<String> {
        let mut left = Vec::new();
        for user in &self.users {
            let did = text(user, "did");
            if flag(user, "is_super") {
                left.push(format!("that {did} is the super user: transfer it in the dashboard"));
            }
            let (_, unknown) = parts::permissions(self.granted(user));
            left.extend(
                unknown
                    .iter()
                    .map(|name| format!("the permission {name} of {did}: this server has none of that name")),
            );
        }
        for key in &self.keys {
            let label = format!("the admin API key {} ({}…)", text(key, "name"), text(key, "key_prefix"));
            let listed = parts::permissions_of_key(key);
            let (_, unknown) = parts::permissions(listed.iter().map(String::as_str));
            left.extend(
                unknown.iter().map(|name| {
                    format!("the permission {name} of {label}: this server has none of that name")
                }),
            );
            if self.owner_of(key).is_none() {
                left.push(format!("{label}: its user does not exist"));
            }
        }
        for row in &self.settings {
            match text(row, "key") {
                "attestation_private_key" => left.push(
                    "the setting attestation_private_key: start this server with it as ATTESTATION_PRIVATE_KEY, if it shall \
                     go on signing with that key"
                        .to_owned(),
                ),
                key if !is_copied_setting(key) => {
                    left.push(format!("the setting {key}: enter it in the dashboard if you need it"));
                }
                _ => {}
            }
        }
        for domain in self.domains.iter().filter(|domain| flag(domain, "is_primary")) {
            left.push(format!(
                "that {} is the primary domain: choose it in the dashboard",
                text(domain, "url")
            ));
        }
        for script in self.scripts.iter().filter(|script| !is_lua(script)) {
            let (id, language) = (text(script, "id"), text(script, "script_type"));
            left.push(format!("the script {id}: it is in {language}, and scripts here are in Lua"));
        }
        for client in &self.clients {
            if client.contains_key("parent_client_id") && self.parent_of(client).is_none() {
                let name = text(client, "name");
                left.push(format!("the application {name}: the one that has registered it does not exist"));
            }
        }
        if !self.linked_repos.is_empty() {
            left.push("tokens of linked repos: their owners authorize them again".to_owned());
        }
        left
    }

    /// The parts, in an order in which each finds what it needs. `backfill`: new record lexicons start one if the instance had one.
    pub(super) fn parts(&self, backfill: bool) -> Vec<Part> {
        let mut parts = Vec::new();
        parts.extend(self.variables.iter().map(parts::variable));
        parts.extend(self.domains.iter().map(parts::domain));
        parts.extend(
            self.settings.iter().filter(|row| is_copied_setting(text(row, "key"))).map(parts::setting),
        );
        parts.extend(self.users.iter().map(|user| {
            let (permissions, _) = parts::permissions(self.granted(user));
            parts::user(user, &permissions)
        }));
        parts.extend(self.keys.iter().filter_map(|key| {
            let listed = parts::permissions_of_key(key);
            let (permissions, _) = parts::permissions(listed.iter().map(String::as_str));
            Some(parts::key(key, self.owner_of(key)?, &permissions))
        }));
        parts.extend(self.lexicons.iter().map(|row| parts::lexicon(row, backfill)));
        parts.extend(self.lexicons.iter().flat_map(parts::scripts_of_lexicon));
        parts.extend(self.scripts.iter().filter(|row| is_lua(row)).map(parts::script));
        parts.extend(self.labelers.iter().map(parts::labeler));
        parts.extend(self.services.iter().map(|row| self.service(row)));
        let (children, top): (Vec<_>, Vec<_>) =
            self.clients.iter().partition(|client| client.contains_key("parent_client_id"));
        parts.extend(top.into_iter().map(|client| parts::client(client, None)));
        parts.extend(
            children
                .into_iter()
                .filter_map(|client| Some(parts::client(client, Some(self.parent_of(client)?)))),
        );
        parts.extend(self.linked_repos.iter().map(parts::linked_repo));
        parts
    }

    fn granted<'a>(&'a self, user: &'a ForeignRow) -> impl Iterator<Item = &'a str> {
        let of_user = move |row: &&ForeignRow| row.get("user_id") == user.get("id");
        self.permissions.iter().filter(of_user).map(|row| text(row, "permission"))
    }

    fn owner_of(&self, key: &ForeignRow) -> Option<&str> {
        let owner = self.users.iter().find(|user| user.get("id") == key.get("user_id"))?;
        Some(text(owner, "did"))
    }

    fn parent_of(&self, client: &ForeignRow) -> Option<&ForeignRow> {
        self.clients.iter().find(|parent| parent.get("id") == client.get("parent_client_id"))
    }

    fn service(&self, row: &ForeignRow) -> Part {
        let of_service = |method: &&ForeignRow| method.get("service_entry_id") == row.get("id");
        let methods = self.service_methods.iter().filter(of_service);
        let mut methods: Vec<&str> = methods.map(|method| text(method, "lexicon_id")).collect();
        methods.sort_unstable();
        parts::service(row, &methods)
    }
}

/// Rows of earlier versions have no type.
fn is_lua(script: &ForeignRow) -> bool {
    matches!(text(script, "script_type"), "" | "lua")
}
