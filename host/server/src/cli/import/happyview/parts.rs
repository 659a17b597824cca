//! Makes parts of the rows of a HappyView instance. The hashes of its secrets are those of this product: SHA-256 of the whole text.

use http::Method;
use serde_json::{Value, json};

use super::part::{Kind, Part, Request, created, keys_of_owner};
use crate::access::Permission;
use crate::api::admin::script_variables::preview;
use belvedere_instance::lexicons::forwarding;
use belvedere_instance::repos::linked;
use belvedere_protocol::atproto::scope::with_single_spaces;
use belvedere_protocol::trigger::TriggerKind;
use belvedere_storage::store::foreign::ForeignRow;

/// Settings that are copied, besides those of backfills and of rate limits.
const SETTINGS: [&str; 9] = [
    "app_name",
    "client_uri",
    "logo_uri",
    "tos_uri",
    "policy_uri",
    "feature.spaces_enabled",
    "verbose_event_logging",
    "event_log_retention_days",
    forwarding::SETTING,
];

/// The value of a column; empty if it is NULL.
pub(super) fn text<'a>(row: &'a ForeignRow, column: &str) -> &'a str {
    row.get(column).map_or("", String::as_str)
}

/// The value of a column that is boolean, or an integer in its place.
pub(super) fn flag(row: &ForeignRow, column: &str) -> bool {
    matches!(text(row, column), "1" | "true" | "t")
}

/// A list in a column of JSON text.
fn list(row: &ForeignRow, column: &str) -> Vec<String> {
    serde_json::from_str(text(row, column)).unwrap_or_default()
}

/// A whole number in a column; null if it is none.
fn number(row: &ForeignRow, column: &str) -> Value {
    json!(text(row, column).parse::<i64>().ok())
}

fn optional<'a>(row: &'a ForeignRow, column: &str) -> Option<&'a str> {
    row.get(column).map(String::as_str).filter(|value| !value.is_empty())
}

pub(super) fn is_copied_setting(key: &str) -> bool {
    SETTINGS.contains(&key) || key.starts_with("backfill_") || key.starts_with("rate_limit.")
}

/// The permissions of a list under their names of today, sorted, and those that this version does not know.
pub(super) fn permissions<'a>(names: impl IntoIterator<Item = &'a str>) -> (Vec<&'static str>, Vec<&'a str>) {
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for name in names {
        let renamed = match name {
            "network-lexicons:create" => "lexicons:create",
            "network-lexicons:read" => "lexicons:read",
            "network-lexicons:delete" => "lexicons:delete",
            other => other,
        };
        match Permission::parse(renamed) {
            Some(permission) => known.push(permission.as_str()),
            None => unknown.push(name),
        }
    }
    known.sort_unstable();
    known.dedup();
    (known, unknown)
}

/// The permissions of a key.
pub(super) fn permissions_of_key(row: &ForeignRow) -> Vec<String> {
    list(row, "permissions")
}

pub(super) fn variable(row: &ForeignRow) -> Part {
    let (key, value) = (text(row, "key"), text(row, "value"));
    let request = Request::post("/admin/script-variables", json!({ "key": key, "value": value }));
    Part::new(Kind::Variable, key, json!({ "preview": preview(value) }), [request])
}

pub(super) fn domain(row: &ForeignRow) -> Part {
    let url = text(row, "url");
    Part::new(Kind::Domain, url, json!({}), [Request::post("/admin/domains", json!({ "url": url }))])
}

pub(super) fn setting(row: &ForeignRow) -> Part {
    let (key, value) = (text(row, "key"), text(row, "value"));
    let (path, body) = if key == forwarding::SETTING {
        let rules = serde_json::from_str(value).unwrap_or_default();
        ("/admin/settings/xrpc-proxy".to_owned(), rules)
    } else {
        (format!("/admin/settings/{key}"), json!({ "value": value }))
    };
    Part::new(Kind::Setting, key, body.clone(), [Request::new(Method::PUT, path, body)])
}

pub(super) fn user(row: &ForeignRow, permissions: &[&str]) -> Part {
    let did = text(row, "did");
    let body = json!({ "did": did, "permissions": permissions, "unchecked": true });
    let request = Request::post("/admin/users", body);
    Part::new(Kind::User, did, json!({ "permissions": permissions }), [request])
}

pub(super) fn key(row: &ForeignRow, owner: &str, permissions: &[&str]) -> Part {
    let (name, prefix) = (text(row, "name"), text(row, "key_prefix"));
    let wanted = json!({ "name": name, "permissions": permissions, "revoked_at": null });
    let mut body = json!({ "name": name, "permissions": permissions });
    body["key_prefix"] = json!(prefix);
    body["key_hash"] = json!(text(row, "key_hash"));
    let made = Part::new(Kind::Key, name, wanted, [Request::post(keys_of_owner(), body)]);
    Part {
        name: format!("{name} ({prefix}…)"),
        key: prefix.to_owned(),
        owner: Some(owner.to_owned()),
        ..made
    }
}

pub(super) fn labeler(row: &ForeignRow) -> Part {
    let did = text(row, "did");
    let mut requests = vec![Request::post("/admin/labelers", json!({ "did": did }))];
    let status = if text(row, "status") == "active" { "active" } else { "paused" };
    let wanted = json!({ "status": status });
    if status != "active" {
        requests.push(Request::new(Method::PATCH, format!("/admin/labelers/{did}"), wanted.clone()));
    }
    Part::new(Kind::Labeler, did, wanted, requests)
}

pub(super) fn lexicon(row: &ForeignRow, backfill: bool) -> Part {
    let id = text(row, "id");
    let is_of_network = text(row, "source") == "network";
    let target = optional(row, "target_collection");
    let (mut wanted, path) = if is_of_network {
        (json!({ "source": "network" }), "/admin/network-lexicons")
    } else {
        // The document is sent as the value that it is.
        let document: Value = serde_json::from_str(text(row, "lexicon_json")).unwrap_or_default();
        let action = optional(row, "action").filter(|action| *action != "upsert");
        let cost = number(row, "token_cost");
        (json!({ "lexicon_json": document, "action": action, "token_cost": cost }), "/admin/lexicons")
    };
    wanted["target_collection"] = json!(target);
    let mut body = wanted.clone();
    if is_of_network {
        body = json!({ "nsid": id, "target_collection": target });
    }
    body["backfill"] = json!(backfill && flag(row, "backfill"));
    Part::new(Kind::Lexicon, id, wanted, [Request::post(path, body)])
}

/// The scripts that earlier versions have in the row of their lexicon.
pub(super) fn scripts_of_lexicon(row: &ForeignRow) -> Vec<Part> {
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

pub(super) fn script(row: &ForeignRow) -> Part {
    saved(text(row, "id"), text(row, "body"), optional(row, "description"))
}

fn saved(id: &str, body: &str, description: Option<&str>) -> Part {
    let wanted = json!({ "body": body, "description": description });
    let body = json!({ "id": id, "body": body, "description": description });
    Part::new(Kind::Script, id, wanted, [Request::post("/admin/scripts", body)])
}

pub(super) fn service(row: &ForeignRow, methods: &[&str]) -> Part {
    let (fragment, service_type) = (text(row, "fragment_id"), text(row, "service_type"));
    // The same mode under its name here.
    let mode = match text(row, "access_mode") {
        "specific" => "allowlist",
        other => other,
    };
    let wanted = json!({ "service_type": service_type, "access_mode": mode, "methods": methods });
    let path = "/admin/service-entries";
    let body = json!({ "fragment_id": fragment, "service_type": service_type });
    // The methods before the mode that makes them count; their answers have no id, so that of the first one stays.
    let methods = Request::post(format!("{}/xrpcs", created(path)), json!({ "lexicon_ids": methods }));
    let mode = Request::new(Method::PUT, created(path), json!({ "access_mode": mode }));
    Part::new(Kind::Service, fragment, wanted, [Request::post(path, body), methods, mode])
}

/// An application. `parent`: the one that has registered it for a user.
pub(super) fn client(row: &ForeignRow, parent: Option<&ForeignRow>) -> Part {
    let is_public = text(row, "client_type") == "public";
    let hash = optional(row, "client_secret_hash").filter(|_| !is_public);
    let is_active = flag(row, "is_active");
    let wanted = json!({
        "name": text(row, "name"),
        "client_id_url": text(row, "client_id_url"),
        "client_uri": text(row, "client_uri"),
        "redirect_uris": list(row, "redirect_uris"),
        "scopes": with_single_spaces(optional(row, "scopes").unwrap_or("atproto")),
        "client_type": if is_public { "public" } else { "confidential" },
        "allowed_origins": list(row, "allowed_origins"),
        "rate_limit_capacity": number(row, "rate_limit_capacity"),
        "rate_limit_refill_rate": text(row, "rate_limit_refill_rate").parse::<f64>().ok(),
        "is_active": is_active,
        "owner_did": parent.and_then(|_| optional(row, "owner_did")),
    });
    let mut body = wanted.clone();
    body["credentials"] = json!({ "client_key": text(row, "client_key"), "client_secret_hash": hash });
    if let Some(parent) = parent {
        let owner = text(row, "owner_did");
        body["parent"] = json!({ "client_key": text(parent, "client_key"), "owner_did": owner });
    }
    let path = "/admin/api-clients";
    let mut requests = vec![Request::post(path, body)];
    if !is_active {
        requests.push(Request::new(Method::PUT, created(path), json!({ "is_active": false })));
    }
    let made = Part::new(Kind::Client, text(row, "name"), wanted, requests);
    Part { key: text(row, "client_key").to_owned(), ..made }
}

/// A grant, which its owner authorizes again: tokens stay behind.
pub(super) fn linked_repo(row: &ForeignRow) -> Part {
    // The reason has another name in earlier versions.
    let reason = optional(row, "reason").or_else(|| optional(row, "label"));
    let scopes = text(row, "scopes");
    // The server refuses those that it can't read.
    let scopes = linked::scopes(scopes).unwrap_or_else(|_| scopes.to_owned());
    let did = optional(row, "did");
    let wanted = json!({ "did": did, "scopes": scopes, "reason": reason });
    let key = linked_repo_key(&wanted);
    let body = json!({ "handle": did, "scopes": scopes, "reason": reason });
    Part::new(Kind::LinkedRepo, &key, wanted, [Request::post("/admin/linked-repos", body)])
}

/// Names a linked repo: one account has one, and open ones differ in what they are for.
pub(super) fn linked_repo_key(repo: &Value) -> String {
    let text = |field: &str| repo[field].as_str().unwrap_or_default();
    match repo["did"].as_str() {
        Some(did) => did.to_owned(),
        None => format!("open for {}: {}", text("scopes"), text("reason")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_have_the_names_of_today() {
        let names = ["users:read", "network-lexicons:create", "lexicons:create", "wishes:grant"];
        assert_eq!(permissions(names), (vec!["lexicons:create", "users:read"], vec!["wishes:grant"]));
    }

    #[test]
    fn settings_with_a_meaning_here_are_copied() {
        for key in
            ["app_name", "backfill_concurrent_pds", "rate_limit.default_query_cost", "xrpc_proxy_config"]
        {
            assert!(is_copied_setting(key), "{key}");
        }
        for key in ["telemetry.mode", "attestation_private_key", "logo_data"] {
            assert!(!is_copied_setting(key), "{key}");
        }
    }
}
