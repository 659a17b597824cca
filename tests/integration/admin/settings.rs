//! `/admin/settings/*`

use belvedere_standins::database::sqlite_url;
use http::Method;
use serde_json::json;

use crate::support::instance::{Instance, query_lexicon};

const PATH: &str = "/admin/settings/xrpc-proxy";

crate::in_both_worlds! {
    async fn forwarding_rules_are_stored(world) {
        let server = &world.server;
        let get = async || server.admin(Method::GET, PATH, None).await.body;
        assert_eq!(get().await, json!({ "mode": "open", "nsids": [], "routing": "authority" }));
        let rules = json!({ "mode": "allowlist", "nsids": ["com.example.get", "org.test.*"], "routing": "serviceproxy" });
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

    async fn a_stored_setting_overrides_the_environment_until_it_is_deleted(world) {
        let server = &world.server;
        let list = async || server.admin(Method::GET, "/admin/settings", None).await.body;
        let describe = async || {
            let path = "/xrpc/com.atproto.server.describeServer";
            let answer = server.request(Method::GET, path, &[], None).await;
            assert_eq!(answer.status, 200, "{}", answer.text);
            answer.body
        };
        assert_eq!(list().await, json!([]));
        assert_eq!(describe().await, json!({ "did": server.did(), "availableUserDomains": [], "links": {} }));

        let put = async |key: &str, value: &str| {
            let body = json!({ "value": value });
            server.admin(Method::PUT, &format!("/admin/settings/{key}"), Some(&body)).await
        };
        assert_eq!(put("tos_uri", "https://example.com/tos").await.status, 204);
        assert_eq!(put("app_name", "Notes").await.status, 204);
        assert_eq!(list().await, json!([
            { "key": "app_name", "value": "Notes", "source": "database" },
            { "key": "tos_uri", "value": "https://example.com/tos", "source": "database" },
        ]));
        assert_eq!(describe().await["links"], json!({ "termsOfService": "https://example.com/tos" }));
        assert_eq!(server.admin(Method::DELETE, "/admin/settings/tos_uri", None).await.status, 204);
        assert_eq!(server.admin(Method::DELETE, "/admin/settings/tos_uri", None).await.status, 404);
        assert_eq!(describe().await["links"], json!({}));
        let log = server.admin(Method::GET, "/admin/events?category=setting", None).await;
        let seen: Vec<_> = log.body["events"].as_array().unwrap().iter()
            .map(|e| json!([e["event_type"], e["subject"]])).collect();
        assert_eq!(seen, [json!(["setting.deleted", "tos_uri"]), json!(["setting.updated", "app_name"]),
            json!(["setting.updated", "tos_uri"])]);

        for (key, body) in [
            ("tos_uri", json!({ "value": "javascript:alert(1)" })),
            ("verbose_event_logging", json!({ "value": "sometimes" })),
            ("rate_limit.default_query_cost", json!({ "value": "-1" })),
            ("xrpc_proxy_config", json!({ "value": "{}" })),
            ("UPPER", json!({ "value": "x" })),
            ("app_name", json!({ "value": 5 })),
            ("app_name", json!({})),
        ] {
            let refused = server.admin(Method::PUT, &format!("/admin/settings/{key}"), Some(&body)).await;
            assert_eq!(refused.status, 400, "{key} {body}: {}", refused.text);
        }
    }

    async fn a_change_takes_effect_at_once(world) {
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

    async fn the_logo_is_public_and_can_not_run_scripts(world) {
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
        assert_eq!(list.body, json!([]), "files are no part of the list");

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
}

#[tokio::test]
async fn the_environment_has_the_defaults() {
    let (url, _directory) = sqlite_url();
    let more = [("APP_NAME", "From outside"), ("VERBOSE_EVENT_LOGGING", "yes")];
    let server = Instance::start_with(&url, "none", &more).await;
    let list = async || server.admin(Method::GET, "/admin/settings", None).await.body;
    let name = |value: &str, source: &str| json!({ "key": "app_name", "value": value, "source": source });
    let verbose = json!({ "key": "verbose_event_logging", "value": "true", "source": "env" });
    assert_eq!(list().await, json!([name("From outside", "env"), verbose]));
    let body = json!({ "value": "Stored" });
    assert_eq!(server.admin(Method::PUT, "/admin/settings/app_name", Some(&body)).await.status, 204);
    assert_eq!(list().await, json!([name("Stored", "database"), verbose]));
    assert_eq!(server.admin(Method::DELETE, "/admin/settings/app_name", None).await.status, 204);
    assert_eq!(list().await, json!([name("From outside", "env"), verbose]));
}
