//! `/admin/settings/*`

use crate::fixtures::World;
use belvedere_standins::database::sqlite_url;
use http::Method;
use serde_json::{Value, json};

use crate::support::instance::{Instance, query_lexicon};

const PATH: &str = "/admin/settings/xrpc-proxy";

/// The list of settings from the first start: the default costs (admin-api.md §9), and `more`.
fn with_costs(more: &[Value]) -> Value {
    let mut list: Vec<Value> = ["procedure", "proxy", "query"]
        .map(|kind| {
            let key = format!("rate_limit.default_{kind}_cost");
            json!({ "key": key, "value": "1", "source": "database" })
        })
        .into();
    list.extend_from_slice(more);
    list.sort_by_key(|setting| (setting["source"].to_string(), setting["key"].to_string()));
    json!(list)
}

crate::in_both_worlds!(
    forwarding_rules_are_stored,
    a_stored_setting_overrides_the_environment_until_it_is_deleted,
    a_change_takes_effect_at_once,
    the_logo_is_public_and_can_not_run_scripts,
    the_uploaded_logo_is_shown_wherever_the_server_presents_itself,
    events_are_kept_as_long_as_the_setting_says,
    feature_flags_are_listed_and_switched,
    the_public_configuration_needs_no_login
);

async fn forwarding_rules_are_stored(world: World) {
    let server = &world.server;
    let get = async || server.admin(Method::GET, PATH, None).await.body;
    assert_eq!(get().await, json!({ "mode": "open", "nsids": [], "routing": "authority" }));
    let rules =
        json!({ "mode": "allowlist", "nsids": ["com.example.get", "org.test.*"], "routing": "serviceproxy" });
    let put = server.admin(Method::PUT, PATH, Some(&rules)).await;
    assert_eq!((put.status.as_u16(), put.text.as_str()), (204, ""));
    assert_eq!(get().await, rules);
    let log = server.admin(Method::GET, "/admin/events?event_type=setting.updated", None).await;
    assert_eq!(log.body["events"][0]["subject"], "xrpc_proxy_config");

    for bad in [
        json!({ "mode": "sometimes", "nsids": [] }),
        json!({ "mode": "allowlist" }),
        json!({ "nsids": [] }),
        json!({ "mode": "blocklist", "nsids": ["*"] }),
        json!({ "mode": "blocklist", "nsids": [7] }),
        json!([]),
    ] {
        let refused = server.admin(Method::PUT, PATH, Some(&bad)).await;
        assert_eq!(refused.status, 400, "{bad}: {}", refused.text);
        assert!(!refused.error().is_empty());
    }
    assert_eq!(get().await, rules);
    let open = json!({ "mode": "open", "nsids": ["com.example.get"] });
    assert_eq!(server.admin(Method::PUT, PATH, Some(&open)).await.status, 204);
    assert_eq!(get().await, json!({ "mode": "open", "nsids": [], "routing": "authority" }));
}

async fn a_stored_setting_overrides_the_environment_until_it_is_deleted(world: World) {
    let server = &world.server;
    let list = async || server.admin(Method::GET, "/admin/settings", None).await.body;
    let describe = async || {
        let path = "/xrpc/com.atproto.server.describeServer";
        let answer = server.request(Method::GET, path, &[], None).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.body
    };
    assert_eq!(list().await, with_costs(&[]));
    assert_eq!(describe().await, json!({ "did": server.did(), "availableUserDomains": [], "links": {} }));

    let put = async |key: &str, value: &str| {
        let body = json!({ "value": value });
        server.admin(Method::PUT, &format!("/admin/settings/{key}"), Some(&body)).await
    };
    assert_eq!(put("tos_uri", "https://example.com/tos").await.status, 204);
    assert_eq!(put("app_name", "Notes").await.status, 204);
    assert_eq!(
        list().await,
        with_costs(&[
            json!({ "key": "app_name", "value": "Notes", "source": "database" }),
            json!({ "key": "tos_uri", "value": "https://example.com/tos", "source": "database" }),
        ])
    );
    assert_eq!(describe().await["links"], json!({ "termsOfService": "https://example.com/tos" }));
    assert_eq!(server.admin(Method::DELETE, "/admin/settings/tos_uri", None).await.status, 204);
    assert_eq!(server.admin(Method::DELETE, "/admin/settings/tos_uri", None).await.status, 404);
    assert_eq!(describe().await["links"], json!({}));
    let log = server.admin(Method::GET, "/admin/events?category=setting", None).await;
    let seen: Vec<_> = log.body["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| json!([e["event_type"], e["subject"]]))
        .collect();
    assert_eq!(
        seen,
        [
            json!(["setting.deleted", "tos_uri"]),
            json!(["setting.updated", "app_name"]),
            json!(["setting.updated", "tos_uri"])
        ]
    );

    for (key, body) in [
        ("tos_uri", json!({ "value": "javascript:alert(1)" })),
        ("verbose_event_logging", json!({ "value": "sometimes" })),
        ("rate_limit.default_query_cost", json!({ "value": "-1" })),
        ("xrpc_proxy_config", json!({ "value": "{}" })),
        ("telemetry", json!({ "value": "on" })),
        ("telemetry.mode", json!({ "value": "auto" })),
        ("event_log_retention_days", json!({ "value": "soon" })),
        ("backfill_concurrent_pds", json!({ "value": "0" })),
        ("backfill_retention_days", json!({ "value": "a week" })),
        ("UPPER", json!({ "value": "x" })),
        ("app_name", json!({ "value": 5 })),
        ("app_name", json!({})),
    ] {
        let refused = server.admin(Method::PUT, &format!("/admin/settings/{key}"), Some(&body)).await;
        assert_eq!(refused.status, 400, "{key} {body}: {}", refused.text);
    }
}

async fn a_change_takes_effect_at_once(world: World) {
    let server = &world.server;
    server.upload(query_lexicon("com.example.counted"), None).await;
    server.bind("com.example.counted", "function handle() return {} end").await;
    let put = async |key: &str, value: &str| {
        let body = json!({ "value": value });
        let answer = server.admin(Method::PUT, &format!("/admin/settings/{key}"), Some(&body)).await;
        assert_eq!(answer.status, 204, "{}", answer.text);
    };
    let remaining = async || {
        let answer = server.xrpc("com.example.counted").await;
        answer.headers["ratelimit-remaining"].to_str().unwrap().parse::<i64>().unwrap()
    };
    let before = remaining().await;
    put("rate_limit.default_query_cost", "1000").await;
    assert!(remaining().await <= before - 900, "the call costs what the setting says");

    let executed = async || {
        let events = server.admin(Method::GET, "/admin/events?event_type=script.executed", None).await;
        events.body["events"].as_array().unwrap().len()
    };
    assert_eq!(executed().await, 0);
    put("verbose_event_logging", "true").await;
    server.xrpc("com.example.counted").await;
    assert_eq!(executed().await, 1);
    put("verbose_event_logging", "false").await;
    server.xrpc("com.example.counted").await;
    assert_eq!(executed().await, 1);
}

async fn the_logo_is_public_and_can_not_run_scripts(world: World) {
    let server = &world.server;
    let key = format!("Bearer {}", server.admin_key);
    let put = async |kind: &str, body: String| {
        let headers = [("authorization", &*key), ("content-type", kind)];
        server.request(Method::PUT, "/admin/settings/logo", &headers, Some(body)).await
    };
    let get = async || server.request(Method::GET, "/settings/logo", &[], None).await;
    assert_eq!(get().await.status, 404);
    let svg = "<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>";
    assert_eq!(put("image/svg+xml", svg.to_owned()).await.status, 204);
    let shown = get().await;
    assert_eq!((shown.status.as_u16(), shown.text.as_str()), (200, svg));
    let header = |name: &str| shown.headers[name].to_str().unwrap();
    assert_eq!((header("content-type"), header("x-content-type-options")), ("image/svg+xml", "nosniff"));
    assert!(header("content-security-policy").contains("default-src 'none'; "));
    assert_eq!(header("cache-control"), "public, max-age=3600");
    let list = server.admin(Method::GET, "/admin/settings", None).await;
    assert_eq!(list.body, with_costs(&[]), "files are no part of the list");

    for (kind, body, status) in [
        ("text/html", "x".to_owned(), 400),
        ("image/", "x".to_owned(), 400),
        ("image/png; x=y", "x".to_owned(), 400),
        ("image/png", String::new(), 400),
    ] {
        let refused = put(kind, body).await;
        assert_eq!(refused.status.as_u16(), status, "{kind}: {}", refused.text);
    }
    assert_eq!(put("image/png", "x".repeat(5 << 20)).await.status, 204, "as large as may be");
    for _ in 0..2 {
        assert_eq!(server.admin(Method::DELETE, "/admin/settings/logo", None).await.status, 204);
    }
    assert_eq!(get().await.status, 404);
}

async fn the_uploaded_logo_is_shown_wherever_the_server_presents_itself(world: World) {
    let server = &world.server;
    let shown = async || {
        let metadata = server.request(Method::GET, "/oauth-client-metadata.json", &[], None).await.body;
        let config = server.request(Method::GET, "/config", &[], None).await.body;
        assert_eq!(metadata.get("logo_uri").unwrap_or(&Value::Null), &config["logo_url"]);
        config["logo_url"].clone()
    };
    assert_eq!(shown().await, Value::Null);
    let external = json!({ "value": "https://cdn.example/logo.png" });
    assert_eq!(server.admin(Method::PUT, "/admin/settings/logo_uri", Some(&external)).await.status, 204);
    assert_eq!(shown().await, external["value"]);
    let key = format!("Bearer {}", server.admin_key);
    let headers = [("authorization", &*key), ("content-type", "image/png")];
    let put = server.request(Method::PUT, "/admin/settings/logo", &headers, Some("picture".to_owned())).await;
    assert_eq!(put.status, 204, "{}", put.text);
    let own = shown().await.as_str().unwrap().to_owned();
    let origin = format!("http://{}", server.address);
    let path = own.strip_prefix(&origin).unwrap_or_else(|| panic!("{own}"));
    assert!(path.starts_with("/settings/logo?v="), "{path}");
    assert_eq!(server.request(Method::GET, path, &[], None).await.text, "picture");

    // On the page of an invite, and in its description.
    let grant =
        server.admin(Method::POST, "/admin/linked-repos", Some(&json!({ "scopes": "atproto" }))).await;
    let invite = format!("/admin/linked-repos/{}/invite", grant.body["id"].as_str().unwrap());
    let invite = server.admin(Method::POST, &invite, None).await;
    let token = invite.body["invite_url"].as_str().unwrap().split("token=").nth(1).unwrap();
    let page = server.request(Method::GET, &format!("/link/start?token={token}"), &[], None).await;
    assert!(page.text.contains(&format!("<img src=\"{own}\"")), "{}", page.text);
    let info = server.request(Method::GET, &format!("/auth/linked-repo/info?token={token}"), &[], None).await;
    assert_eq!(info.body["logo_url"], *own);

    assert_eq!(server.admin(Method::DELETE, "/admin/settings/logo", None).await.status, 204);
    assert_eq!(shown().await, external["value"]);
}

async fn events_are_kept_as_long_as_the_setting_says(world: World) {
    let server = &world.server;
    world
        .execute(
            "INSERT INTO events (created_at, id, event_type, severity, detail) \
        VALUES (1, 'old', 'old.event', 'info', '{}')",
        )
        .await;
    let put = async |days: &str| {
        let path = "/admin/settings/event_log_retention_days";
        server.admin(Method::PUT, path, Some(&json!({ "value": days }))).await.status.as_u16()
    };
    let count = async || {
        server.admin(Method::GET, "/admin/events/count?category=old", None).await.body["count"].clone()
    };
    assert_eq!((put("0").await, count().await), (204, json!(1)), "kept for ever");
    assert_eq!(put("1").await, 204);
    server.eventually("the old event is removed", async |_| count().await == 0).await;
    let log = server.admin(Method::GET, "/admin/events/count?category=setting", None).await;
    assert_eq!(log.body["count"], 2, "newer events stay");
}

async fn feature_flags_are_listed_and_switched(world: World) {
    let server = &world.server;
    let enabled = async || {
        let flags = server.admin(Method::GET, "/admin/feature-flags", None).await;
        assert_eq!(
            (flags.status.as_u16(), flags.body.as_array().map(Vec::len)),
            (200, Some(1)),
            "{}",
            flags.text
        );
        let flag = &flags.body[0];
        assert_eq!(flag["key"], "feature.spaces_enabled");
        assert!(flag["name"].is_string() && flag["description"].is_string(), "{flag}");
        let config = server.request(Method::GET, "/config", &[], None).await.body;
        assert_eq!(config["features"], json!({ "spaces": flag["enabled"] }));
        let offered = server.admin(Method::GET, "/admin/permissions", None).await;
        assert_eq!(json!(offered.text.contains("\"spaces:create\"")), flag["enabled"]);
        flag["enabled"].clone()
    };
    assert_eq!(enabled().await, false);
    for (value, status, after) in [("maybe", 400, false), ("true", 204, true), ("false", 204, false)] {
        let path = "/admin/settings/feature.spaces_enabled";
        let answer = server.admin(Method::PUT, path, Some(&json!({ "value": value }))).await;
        assert_eq!((answer.status.as_u16(), enabled().await), (status, json!(after)), "{value}");
    }
}

async fn the_public_configuration_needs_no_login(world: World) {
    let server = &world.server;
    let name = json!({ "value": "Notes" });
    assert_eq!(server.admin(Method::PUT, "/admin/settings/app_name", Some(&name)).await.status, 204);
    let config = server.request(Method::GET, "/config", &[], None).await;
    let backend = if world.is_postgres() { "postgres" } else { "sqlite" };
    assert_eq!(config.status, 200);
    assert_eq!(
        config.body,
        json!({
            "public_url": format!("http://{}", server.address),
            "version": env!("CARGO_PKG_VERSION"),
            "database_backend": backend,
            "jetstream_url": world.stream.url(),
            "relay_url": world.network.url(),
            "plc_url": world.plc.url(),
            // That of the tests' servers.
            "default_rate_limit_capacity": 1_000_000,
            "default_rate_limit_refill_rate": 2.0,
            "app_name": "Notes",
            "logo_url": null,
            "features": { "spaces": false },
            "has_users": true,
            "configErrors": [],
        })
    );
}

#[tokio::test]
async fn the_environment_has_the_defaults() {
    let (url, _directory) = sqlite_url();
    let more = [
        ("APP_NAME", "From outside"),
        ("VERBOSE_EVENT_LOGGING", "yes"),
        ("EVENT_LOG_RETENTION_DAYS", "7"),
        ("FEATURE_SPACES_ENABLED", "true"),
        ("BACKFILL_MAX_ATTEMPTS", "5"),
    ];
    let server = Instance::start_with(&url, "none", &more).await;
    let list = async || server.admin(Method::GET, "/admin/settings", None).await.body;
    let name = |value: &str, source: &str| json!({ "key": "app_name", "value": value, "source": source });
    let env = |key: &str, value: &str| json!({ "key": key, "value": value, "source": "env" });
    let others = [
        env("backfill_max_attempts", "5"),
        env("event_log_retention_days", "7"),
        env("feature.spaces_enabled", "true"),
        env("verbose_event_logging", "true"),
    ];
    let all = |name: Value| with_costs(&[&[name][..], &others[..]].concat());
    assert_eq!(list().await, all(name("From outside", "env")));
    let body = json!({ "value": "Stored" });
    assert_eq!(server.admin(Method::PUT, "/admin/settings/app_name", Some(&body)).await.status, 204);
    assert_eq!(list().await, all(name("Stored", "database")));
    assert_eq!(server.admin(Method::DELETE, "/admin/settings/app_name", None).await.status, 204);
    assert_eq!(list().await, all(name("From outside", "env")));
}
