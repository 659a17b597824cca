//! Changes on one host take effect on the other without waiting for caches to expire.

use belvedere_base::clock::Clock;
use belvedere_standins::jetstream::Frame;

use crate::fixtures::{ALICE, NOTES};
use crate::support::instance::{query_lexicon, record_lexicon};
use crate::support::plugins::PluginFiles;

use super::*;

/// An admin key is cached for five seconds.
const BEFORE_KEYS_EXPIRE: Duration = Duration::from_secs(4);

const METHOD: &str = "com.example.answer";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_and_keys() {
    let Hosts { a, mut b, .. } = Hosts::start().await;
    let body = json!({ "name": "late", "client_id_url": "https://late.example/client.json",
        "client_uri": "https://late.example", "redirect_uris": [] });
    let client = done(&a, Method::POST, "/admin/api-clients", &body).await;
    client["client_key"].as_str().unwrap().clone_into(&mut b.client_key);
    // The method is unknown, but the client is checked first.
    let status = async |b: &Instance| b.xrpc(METHOD).await.status.as_u16();
    soon("the client is known", NOTIFIED_WITHIN, async || status(&b).await != 401).await;
    let path = format!("/admin/api-clients/{}", client["id"].as_str().unwrap());
    done(&a, Method::DELETE, &path, &json!(null)).await;
    soon("the client is gone", NOTIFIED_WITHIN, async || status(&b).await == 401).await;

    let body = json!({ "name": "ci", "permissions": ["lexicons:read"] });
    let key = done(&a, Method::POST, "/admin/api-keys", &body).await;
    key["key"].as_str().unwrap().clone_into(&mut b.admin_key);
    let path = format!("/admin/api-keys/{}", key["id"].as_str().unwrap());
    assert_eq!(get(&b, "/admin/lexicons").await.status, 200);
    done(&a, Method::DELETE, &path, &json!(null)).await;
    let revoked = async || get(&b, "/admin/lexicons").await.status == 401;
    soon("the key is revoked", BEFORE_KEYS_EXPIRE, revoked).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn domains() {
    let Hosts { a, b, .. } = Hosts::start().await;
    // Pages of our own domains may send cookies.
    let is_ours = async || {
        let answer = b.request(Method::GET, "/health", &[("origin", "https://second.example")], None).await;
        answer.headers.contains_key("access-control-allow-credentials")
    };
    let body = json!({ "url": "https://second.example" });
    let domain = done(&a, Method::POST, "/admin/domains", &body).await;
    soon("the domain is known", NOTIFIED_WITHIN, is_ours).await;
    let path = format!("/admin/domains/{}", domain["id"].as_str().unwrap());
    done(&a, Method::DELETE, &path, &json!(null)).await;
    soon("the domain is gone", NOTIFIED_WITHIN, async || !is_ours().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_identity_of_the_instance() {
    let Hosts { a, b, .. } = Hosts::start().await;
    let served = async || b.request(Method::GET, "/.well-known/did.json", &[], None).await;
    let before = served().await.body;
    let body = json!({ "fragment_id": "#svc", "service_type": "Svc" });
    done(&a, Method::POST, "/admin/service-entries", &body).await;
    let has_service = async || served().await.body["service"][1]["id"] == "#svc";
    soon("the service is known", NOTIFIED_WITHIN, has_service).await;
    done(&a, Method::PUT, "/admin/service-identity", &json!({ "mode": "did_web" })).await;
    let key = async |server: &Instance| {
        let document = server.request(Method::GET, "/.well-known/did.json", &[], None).await.body;
        document["verificationMethod"][0]["publicKeyMultibase"].clone()
    };
    assert_ne!(key(&a).await, before["verificationMethod"][0]["publicKeyMultibase"]);
    soon("both have one key", NOTIFIED_WITHIN, async || key(&b).await == key(&a).await).await;
    done(&a, Method::PUT, "/admin/service-identity", &json!({ "mode": "not_exposed" })).await;
    soon("the document is gone", NOTIFIED_WITHIN, async || served().await.status == 404).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plugins_and_their_secrets() {
    let Hosts { a, b, .. } = Hosts::start().await;
    let summary = async || get(&b, "/admin/plugins").await.body["plugins"][0].clone();
    let installed = PluginFiles::adaptable(&json!({}));
    let accepted = json!(["network:request?host=adaptable.example", "secrets:read", "kv:use"]).to_string();
    let consent = [("accepted_capabilities", accepted.as_bytes())];
    assert_eq!(installed.upload(&a, "/admin/plugins", &consent).await.status, 200);
    let is_loaded = async || summary().await["functions"][0]["name"] == "secret";
    soon("the plugin is loaded", NOTIFIED_WITHIN, is_loaded).await;
    let body = json!({ "secrets": { "PLUGIN_ADAPTABLE_KEY": "a value" } });
    done(&a, Method::PUT, "/admin/plugins/adaptable/secrets", &body).await;
    let is_configured = async || summary().await["secrets_configured"] == true;
    soon("the secret is known", NOTIFIED_WITHIN, is_configured).await;
    done(&a, Method::DELETE, "/admin/plugins/adaptable", &json!(null)).await;
    assert_eq!(summary().await, json!(null));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lexicons_scripts_and_variables() {
    let Hosts { a, b, .. } = Hosts::start().await;
    a.upload(query_lexicon(METHOD), None).await;
    a.bind(METHOD, "function handle() return { n = 1, secret = env.SECRET } end").await;
    let says = async |expected: &Value| b.xrpc(METHOD).await.body == *expected;
    soon("the script is there", NOTIFIED_WITHIN, async || says(&json!({ "n": 1 })).await).await;

    let variable = json!({ "key": "SECRET", "value": "whisper" });
    done(&a, Method::POST, "/admin/script-variables", &variable).await;
    let with_secret = json!({ "n": 1, "secret": "whisper" });
    soon("the variable is there", NOTIFIED_WITHIN, async || says(&with_secret).await).await;

    let script = format!("/admin/scripts/xrpc.query:{METHOD}");
    let body = json!({ "body": "function handle() return { n = 2 } end" });
    done(&a, Method::PATCH, &script, &body).await;
    soon("the script is another", NOTIFIED_WITHIN, async || says(&json!({ "n": 2 })).await).await;

    // Both hosts count the runs of a rollout, and either returns its candidate.
    let candidate =
        json!({ "body": "function handle() return { n = 3 } end", "percent": 100, "min_runs": 1 });
    done(&a, Method::POST, &format!("{script}/rollout"), &candidate).await;
    soon("the candidate runs", NOTIFIED_WITHIN, async || says(&json!({ "n": 3 })).await).await;
    assert_eq!(a.xrpc(METHOD).await.body, json!({ "n": 3 }));
    let counted = async || get(&a, &format!("{script}/rollout")).await.body["candidate"]["runs"].as_u64();
    soon("the runs of both are counted", NOTIFIED_WITHIN, async || counted().await >= Some(2)).await;
    done(&a, Method::DELETE, &format!("{script}/rollout"), &json!(null)).await;
    soon("the candidate is returned", NOTIFIED_WITHIN, async || says(&json!({ "n": 2 })).await).await;

    done(&a, Method::DELETE, &script, &json!(null)).await;
    done(&a, Method::DELETE, &format!("/admin/lexicons/{METHOD}"), &json!(null)).await;
    a.upload(record_lexicon("com.example.other"), None).await;
    a.upload(query_lexicon(METHOD), Some("com.example.other")).await;
    soon("the built-in query is back", NOTIFIED_WITHIN, async || says(&json!({ "records": [] })).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_and_values_derived_from_them() {
    let Hosts { a, b, .. } = Hosts::start().await;
    a.upload(query_lexicon(METHOD), None).await;
    a.bind(METHOD, "function handle() return {} end").await;
    let put = async |key: &str, value: &str| {
        done(&a, Method::PUT, &format!("/admin/settings/{key}"), &json!({ "value": value })).await;
    };
    put("tos_uri", "https://example.com/tos").await;
    let links = async || {
        let path = "/xrpc/com.atproto.server.describeServer";
        b.request(Method::GET, path, &[], None).await.body["links"].clone()
    };
    let expected = json!({ "termsOfService": "https://example.com/tos" });
    soon("the setting is there", NOTIFIED_WITHIN, async || links().await == expected).await;

    let remaining = async || {
        let answer = b.xrpc(METHOD).await;
        answer.headers["ratelimit-remaining"].to_str().unwrap().parse::<i64>().unwrap()
    };
    put("rate_limit.default_query_cost", "1000").await;
    let costs = async || {
        let before = remaining().await;
        before - remaining().await > 900
    };
    soon("calls cost more", NOTIFIED_WITHIN, costs).await;

    let executed = async || {
        let events = get(&b, "/admin/events?event_type=script.executed").await;
        events.body["events"].as_array().unwrap().len()
    };
    assert_eq!(executed().await, 0);
    put("verbose_event_logging", "true").await;
    let logged = async || {
        b.xrpc(METHOD).await;
        executed().await > 0
    };
    soon("runs are logged", NOTIFIED_WITHIN, logged).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn did_documents_after_an_identity_event() {
    let hosts = Hosts::start().await;
    hosts.a.upload(record_lexicon(NOTES), None).await;
    hosts.a.upload(query_lexicon(METHOD), None).await;
    let source =
        format!("function handle() return {{ pds = atproto.resolve_service_endpoint('{ALICE}') }} end");
    hosts.a.bind(METHOD, &source).await;
    hosts.plc.host(ALICE, "https://one.example");
    let says = async |pds: &str| hosts.b.xrpc(METHOD).await.body == json!({ "pds": pds });
    soon("the document is known", NOTIFIED_WITHIN, async || says("https://one.example").await).await;
    hosts.plc.host(ALICE, "https://two.example");
    assert!(says("https://one.example").await, "it is cached");
    // The first host follows the stream.
    soon("the stream is followed", NOTIFIED_WITHIN, async || !hosts.stream.subscriptions().is_empty()).await;
    hosts.stream.push(Frame::identity(Clock::system().now().0, ALICE, "alice.example"));
    soon("the document is another", NOTIFIED_WITHIN, async || says("https://two.example").await).await;
}

/// Notifications that are sent while a host is not listening are lost, so it reloads everything when it listens again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missed_notifications_are_made_up_for() {
    let hosts = Hosts::start().await;
    let links = async || {
        let path = "/xrpc/com.atproto.server.describeServer";
        hosts.b.request(Method::GET, path, &[], None).await.body["links"].clone()
    };
    let listening = "FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'";
    let both = format!(
        "DO $$ BEGIN WHILE (SELECT count(*) {listening}) < 2 LOOP \
        PERFORM pg_sleep(0.01); PERFORM pg_stat_clear_snapshot(); END LOOP; END $$"
    );
    hosts.sql(&both).await;
    // No notification is sent for this change.
    hosts.sql("INSERT INTO settings VALUES ('tos_uri', 'https://example.com/tos', 0)").await;
    hosts.sql(&format!("SELECT pg_terminate_backend(pid) {listening}")).await;
    let expected = json!({ "termsOfService": "https://example.com/tos" });
    soon("the setting is there", NOTIFIED_WITHIN, async || links().await == expected).await;
}
