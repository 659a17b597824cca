//! Reads the tables of a HappyView instance (its migrations up to 2026-05), as requests to the admin API.
//!
//! Older versions lack columns, and newer ones have the scripts in a table of their own. The hashes of secrets are those of this
//! product: SHA-256 of the whole text.

use http::Method;
use serde_json::{Value, json};

use belvedere_protocol::trigger::TriggerKind;
use belvedere_storage::store::StoreError;
use belvedere_storage::store::foreign::{ForeignDb, ForeignRow};

/// Tables whose content stays behind, with the reason.
const LEFT: [(&str, &str); 9] = [
    ("records", "records: they come from the network, by backfills"),
    ("plugins", "plugins: install them again, with their secrets"),
    ("plugin_configs", "secrets of plugins: enter them again"),
    ("oauth_sessions", "sessions of users: they log in again"),
    ("dpop_sessions", "sessions of applications: their users log in again"),
    ("dead_letter_hooks", "dead letters"),
    ("event_logs", "the event log"),
    ("spaces", "spaces and their records: their owners create them again"),
    ("delegated_accounts", "linked repos: their owners link them again"),
];

/// Settings that are copied; `PUT /admin/settings/{key}` checks them.
const SETTINGS: [&str; 6] =
    ["app_name", "client_uri", "logo_uri", "tos_uri", "policy_uri", "feature.spaces_enabled"];

/// The place in a path for the `id` in the answer to the request before.
pub(super) const CREATED_ID: &str = "{id}";

/// A part that the server takes or refuses as one.
#[derive(Debug, PartialEq)]
pub(super) struct Part {
    pub(super) kind: &'static str,
    pub(super) name: String,
    pub(super) requests: Vec<Request>,
}

#[derive(Debug, PartialEq)]
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) body: Value,
}

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
    clients: Vec<ForeignRow>,
    /// The parts that can't be copied, with the reasons, for people.
    pub(super) left: Vec<String>,
}

impl Instance {
    /// # Errors
    /// When the database can't be read, or does not look like that of a HappyView instance.
    pub(super) async fn read(db: &mut ForeignDb) -> anyhow::Result<Self> {
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
        let mut instance = Self {
            lexicons: db.rows("lexicons", &lexicons).await?,
            scripts: db.rows("scripts", &["id", "body", "description", "script_type"]).await?,
            variables: db.rows("script_variables", &["key", "value"]).await?,
            domains: db.rows("domains", &["url", "is_primary"]).await?,
            settings: db.rows("instance_settings", &["key", "value"]).await?,
            labelers: db.rows("labeler_subscriptions", &["did", "status"]).await?,
            users: db.rows("users", &["id", "did", "is_super"]).await?,
            permissions: db.rows("user_permissions", &["user_id", "permission"]).await?,
            clients: db.rows("api_clients", &clients).await?,
            left: Vec::new(),
        };
        if db.count("lexicons").await? == 0 && db.count("users").await? == 0 {
            anyhow::bail!("it has neither lexicons nor users: is it the database of a HappyView instance?");
        }
        instance.left = instance.left_behind(db).await?;
        Ok(instance)
    }

    async fn left_behind(&self, db: &mut ForeignDb) -> Result<Vec<String>, StoreError> {
        let mut left = Vec::new();
        for (table, reason) in LEFT {
            let rows = db.count(table).await?;
            if rows > 0 {
                left.push(format!("{rows} of {reason}"));
            }
        }
        let keys = db.rows("api_keys", &["name", "key_prefix", "revoked_at"]).await?;
        for key in keys.iter().filter(|key| !key.contains_key("revoked_at")) {
            let (name, prefix) = (text(key, "name"), text(key, "key_prefix"));
            left.push(format!("the admin API key {name} ({prefix}…): create another one"));
        }
        for user in self.users.iter().filter(|user| flag(user, "is_super")) {
            left.push(format!("that {} is the super user: transfer it in the dashboard", text(user, "did")));
        }
        for row in &self.settings {
            let key = text(row, "key");
            if !SETTINGS.contains(&key) {
                left.push(format!("the setting {key}: enter it in the dashboard if you need it"));
            }
        }
        for domain in self.domains.iter().filter(|domain| flag(domain, "is_primary")) {
            left.push(format!(
                "that {} is the primary domain: choose it in the dashboard",
                text(domain, "url")
            ));
        }
        for client in self.clients.iter().filter(|client| client.contains_key("parent_client_id")) {
            let name = text(client, "name");
            left.push(format!(
                "the application {name}, which another application has registered for its user"
            ));
        }
        Ok(left)
    }

    /// The parts, in an order in which each finds what it needs. `backfill`: new record lexicons start one if the instance had one.
    pub(super) fn parts(&self, backfill: bool) -> Vec<Part> {
        let mut parts = Vec::new();
        parts.extend(self.variables.iter().map(variable));
        parts.extend(self.domains.iter().map(domain));
        parts.extend(self.settings.iter().filter(|row| SETTINGS.contains(&text(row, "key"))).map(setting));
        parts.extend(self.users.iter().map(|user| self.user(user)));
        parts.extend(self.lexicons.iter().map(|row| lexicon(row, backfill)));
        parts.extend(self.lexicons.iter().flat_map(scripts_of_lexicon));
        parts.extend(self.scripts.iter().map(script));
        parts.extend(self.labelers.iter().map(labeler));
        let top = self.clients.iter().filter(|client| !client.contains_key("parent_client_id"));
        parts.extend(top.map(client));
        parts
    }

    fn user(&self, user: &ForeignRow) -> Part {
        let of_user = |row: &&ForeignRow| row.get("user_id") == user.get("id");
        let granted = self.permissions.iter().filter(of_user);
        let permissions: Vec<&str> = granted.map(|row| renamed(text(row, "permission"))).collect();
        let body = json!({ "did": text(user, "did"), "permissions": permissions, "unchecked": true });
        Part::of("user", text(user, "did"), [post("/admin/users", body)])
    }
}

impl Part {
    fn of(kind: &'static str, name: &str, requests: impl IntoIterator<Item = Request>) -> Self {
        Self { kind, name: name.to_owned(), requests: requests.into_iter().collect() }
    }
}

fn post(path: &str, body: Value) -> Request {
    Request { method: Method::POST, path: path.to_owned(), body }
}

/// The value of a column; empty if it is NULL.
fn text<'a>(row: &'a ForeignRow, column: &str) -> &'a str {
    row.get(column).map_or("", String::as_str)
}

/// The value of a column that is boolean, or an integer in its place.
fn flag(row: &ForeignRow, column: &str) -> bool {
    matches!(text(row, column), "1" | "true" | "t")
}

/// A list in a column of JSON text.
fn list(row: &ForeignRow, column: &str) -> Value {
    serde_json::from_str(text(row, column)).unwrap_or_else(|_| json!([]))
}

/// A number in a column; null if it is none.
fn number(row: &ForeignRow, column: &str) -> Value {
    serde_json::from_str::<serde_json::Number>(text(row, column)).map_or(Value::Null, Value::Number)
}

/// A permission of earlier versions under its name of today.
fn renamed(permission: &str) -> &str {
    match permission {
        "network-lexicons:create" => "lexicons:create",
        "network-lexicons:read" => "lexicons:read",
        "network-lexicons:delete" => "lexicons:delete",
        other => other,
    }
}

fn variable(row: &ForeignRow) -> Part {
    let (key, value) = (text(row, "key"), text(row, "value"));
    Part::of("script variable", key, [post("/admin/script-variables", json!({ "key": key, "value": value }))])
}

fn domain(row: &ForeignRow) -> Part {
    let url = text(row, "url");
    Part::of("domain", url, [post("/admin/domains", json!({ "url": url }))])
}

fn setting(row: &ForeignRow) -> Part {
    let key = text(row, "key");
    let path = format!("/admin/settings/{key}");
    let body = json!({ "value": text(row, "value") });
    Part::of("setting", key, [Request { method: Method::PUT, path, body }])
}

fn labeler(row: &ForeignRow) -> Part {
    let did = text(row, "did");
    let mut requests = vec![post("/admin/labelers", json!({ "did": did }))];
    if text(row, "status") != "active" {
        let (method, path) = (Method::PATCH, format!("/admin/labelers/{did}"));
        requests.push(Request { method, path, body: json!({ "status": "paused" }) });
    }
    Part::of("labeler", did, requests)
}

fn lexicon(row: &ForeignRow, backfill: bool) -> Part {
    let id = text(row, "id");
    let backfill = backfill && flag(row, "backfill");
    let mut body = if text(row, "source") == "network" {
        json!({ "nsid": id, "backfill": backfill })
    } else {
        // The document is sent as the value that it is.
        let document: Value = serde_json::from_str(text(row, "lexicon_json")).unwrap_or_default();
        json!({ "lexicon_json": document, "backfill": backfill })
    };
    let of_network = body.get("nsid").is_some();
    for column in ["target_collection", "action"].into_iter().filter(|name| !of_network || *name != "action")
    {
        if let Some(value) = row.get(column).filter(|value| !value.is_empty()) {
            body[column] = json!(value);
        }
    }
    if !of_network && row.contains_key("token_cost") {
        body["token_cost"] = number(row, "token_cost");
    }
    let path = if of_network { "/admin/network-lexicons" } else { "/admin/lexicons" };
    Part::of("lexicon", id, [post(path, body)])
}

/// The scripts that earlier versions have in the row of their lexicon.
fn scripts_of_lexicon(row: &ForeignRow) -> Vec<Part> {
    let document: Value = serde_json::from_str(text(row, "lexicon_json")).unwrap_or_default();
    let of_method = match document["defs"]["main"]["type"].as_str() {
        Some("query") => TriggerKind::Query,
        Some("procedure") => TriggerKind::Procedure,
        _ => TriggerKind::RecordIndex,
    };
    let columns = [
        ("script", of_method),
        ("index_hook", TriggerKind::RecordIndex),
        ("on_index_script", TriggerKind::RecordIndex),
    ];
    let bodies = columns.into_iter().filter_map(|(column, kind)| {
        let body = row.get(column).filter(|body| !body.trim().is_empty())?;
        Some(saved(&format!("{}:{}", kind.as_str(), text(row, "id")), body, None))
    });
    bodies.collect()
}

fn script(row: &ForeignRow) -> Part {
    saved(text(row, "id"), text(row, "body"), row.get("description"))
}

fn saved(id: &str, body: &str, description: Option<&String>) -> Part {
    let body = json!({ "id": id, "body": body, "description": description });
    Part::of("script", id, [post("/admin/scripts", body)])
}

fn client(row: &ForeignRow) -> Part {
    let is_public = text(row, "client_type") == "public";
    let hash = row.get("client_secret_hash").filter(|hash| !hash.is_empty() && !is_public);
    let body = json!({
        "name": text(row, "name"),
        "client_id_url": text(row, "client_id_url"),
        "client_uri": text(row, "client_uri"),
        "redirect_uris": list(row, "redirect_uris"),
        "scopes": row.get("scopes"),
        "client_type": if is_public { "public" } else { "confidential" },
        "allowed_origins": list(row, "allowed_origins"),
        "rate_limit_capacity": number(row, "rate_limit_capacity"),
        "rate_limit_refill_rate": number(row, "rate_limit_refill_rate"),
        "credentials": { "client_key": text(row, "client_key"), "client_secret_hash": hash },
    });
    let mut requests = vec![post("/admin/api-clients", body)];
    if !flag(row, "is_active") {
        let (method, path) = (Method::PUT, format!("/admin/api-clients/{CREATED_ID}"));
        requests.push(Request { method, path, body: json!({ "is_active": false }) });
    }
    Part::of("application", text(row, "name"), requests)
}
