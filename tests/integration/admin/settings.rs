//! `/admin/settings/*`

use http::Method;
use serde_json::json;

const PATH: &str = "/admin/settings/xrpc-proxy";

crate::in_both_worlds! {
    async fn forwarding_rules_are_kept(world) {
        let server = &world.server;
        let get = async || server.admin(Method::GET, PATH, None).await.body;
        assert_eq!(get().await, json!({ "mode": "open", "nsids": [] }));
        let rules = json!({ "mode": "allowlist", "nsids": ["com.example.get", "org.test.*"] });
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
        assert_eq!(get().await, json!({ "mode": "open", "nsids": [] }));
    }
}
