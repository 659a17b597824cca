//! The instance's identity at the real PLC directory, and through an account's real PDS.

use reqwest::Method;
use serde_json::{Value, json};

use crate::database::Database;
use crate::index::{add_query, track};
use crate::network::{http, network};
use crate::server::{Server, expect, send};

const NOTE: &str = "com.example.identity.note";
const ASK: &str = "com.example.identity.ask";

/// Sends a request with an admin key, and checks the status.
async fn admin(
    server: &Server,
    key: &str,
    method: Method,
    path: &str,
    body: Option<Value>,
    status: u16,
) -> Value {
    let mut request = server.request(method, path).bearer_auth(key);
    if let Some(body) = body {
        request = request.json(&body);
    }
    let (found, answer) = send(request).await;
    assert_eq!(found.as_u16(), status, "{path} {answer}");
    answer
}

async fn document(plc: &str, did: &str) -> Value {
    http().get(format!("{plc}/{did}")).send().await.unwrap().json().await.unwrap()
}

/// A query that answers who calls it.
async fn add_ask(server: &Server, key: &str) {
    track(server, key, NOTE).await;
    add_query(server, key, ASK, NOTE).await;
    let body = "function handle() return { caller = caller_did } end";
    let script = json!({ "id": format!("xrpc.query:{ASK}"), "body": body });
    admin(server, key, Method::POST, "/admin/scripts", Some(script), 201).await;
}

crate::on_both!(a_registered_did_plc_is_called_through_a_pds);
async fn a_registered_did_plc_is_called_through_a_pds(database: Database) {
    let network = network().await;
    let (operator, alice) = (network.account().await, network.account().await);
    let mut server = Server::with(network, database, &[("PUBLIC_URL", "http://localhost:{port}")]);
    server.start().await;
    let key = server.create_key(&operator.did);
    let call = async |method: Method, path: &str, body: Option<Value>, status: u16| {
        admin(&server, &key, method, path, body, status).await
    };
    add_ask(&server, &key).await;
    let (post, sync) = (Method::POST, "/admin/service-entries/sync-plc");
    call(post.clone(), sync, None, 400).await;
    call(post.clone(), "/api/setup/identity", Some(json!({ "mode": "did_plc" })), 204).await;
    let registered = call(post.clone(), "/api/setup/plc/register", Some(json!({})), 200).await;
    let did = registered["did"].as_str().unwrap();
    call(post.clone(), "/api/setup/complete", Some(json!({})), 204).await;
    let status = call(Method::GET, "/api/setup/status", None, 200).await;
    assert_eq!(status["plc_verified"], true, "{status}");

    let entry = json!({ "fragment_id": "#svc", "service_type": "TestService" });
    let entry = call(post.clone(), "/admin/service-entries", Some(entry), 201).await;
    let method = json!({ "fragment_id": "#extra" });
    call(post.clone(), "/admin/verification-methods", Some(method), 201).await;
    call(post.clone(), sync, None, 204).await;
    let found = document(&network.plc, did).await;
    let services: Vec<&Value> =
        found["service"].as_array().unwrap().iter().map(|service| &service["id"]).collect();
    assert_eq!(services, ["#bsky_appview", "#svc"], "{found}");
    let methods = found["verificationMethod"].as_array().unwrap();
    // Directories differ in whether they name the DID before the fragment.
    let fragment = |method: &Value| method["id"].as_str().unwrap().rsplit('#').next().unwrap().to_owned();
    let mut methods: Vec<String> = methods.iter().map(fragment).collect();
    methods.sort_unstable();
    assert_eq!(methods, ["atproto", "extra"], "{found}");

    // A PDS finds the service in the document.
    let service = format!("{did}#svc");
    let answer = expect(200, alice.proxied(Method::GET, ASK, &service)).await;
    assert_eq!(answer, json!({ "caller": alice.did }));
    // The service permits no method any more; the PDS passes the refusal on.
    let path = format!("/admin/service-entries/{}", entry["id"]);
    call(Method::PUT, &path, Some(json!({ "access_mode": "disabled" })), 204).await;
    let list = call(Method::GET, "/admin/service-entries", None, 200).await;
    let own = format!("/admin/service-entries/{}", list[0]["id"]);
    call(Method::PUT, &own, Some(json!({ "access_mode": "disabled" })), 204).await;
    let (status, body) = send(alice.proxied(Method::GET, ASK, &service)).await;
    assert_eq!(status, 401, "{body}");
    // A service that was deleted, and a key.
    call(Method::DELETE, &path, None, 204).await;
    call(Method::DELETE, "/admin/verification-methods/extra", None, 204).await;
    call(post, sync, None, 204).await;
    let found = document(&network.plc, did).await;
    assert_eq!(found["service"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(found["verificationMethod"].as_array().unwrap().len(), 1, "{found}");
    server.stop().await;
}

/// The cookies of a browser.
#[derive(Default)]
struct Browser(std::collections::BTreeMap<String, String>);

impl Browser {
    async fn send(&mut self, request: reqwest::RequestBuilder) -> reqwest::Response {
        let cookies: Vec<String> = self.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let answer = request.header("cookie", cookies.join("; ")).send().await.unwrap();
        for cookie in answer.headers().get_all("set-cookie") {
            let (name, value) = cookie.to_str().unwrap().split(';').next().unwrap().split_once('=').unwrap();
            self.0.insert(name.to_owned(), value.to_owned());
        }
        answer
    }

    /// Logs in with an account, which consents at its PDS. Returns where the browser is sent.
    async fn login(&mut self, server: &Server, account: &crate::pds::Account, scope: &str) -> String {
        let network = network().await;
        let query = [("handle", account.did.as_str()), ("scope", scope), ("redirect_uri", "/page")];
        let begun: Value =
            self.send(server.request(Method::GET, "/auth/login").query(&query)).await.json().await.unwrap();
        let url = begun["url"].as_str().unwrap_or_else(|| panic!("{begun}"));
        let back = network.consent(account, url).await;
        let path = back.split_once("/auth/").unwrap().1;
        // The redirect is not followed: the page does not exist.
        let answer = self.send(crate::oauth::browser().get(format!("{}/auth/{path}", server.url))).await;
        answer.headers()["location"].to_str().unwrap().to_owned()
    }
}

crate::on_both!(an_account_is_attached_with_the_code_of_its_pds);
async fn an_account_is_attached_with_the_code_of_its_pds(database: Database) {
    let network = network().await;
    let (operator, project, alice) =
        (network.account().await, network.account().await, network.account().await);
    let mut server = Server::new(network, database);
    server.start().await;
    let key = server.create_key(&operator.did);
    let call = async |method: Method, path: &str, body: Option<Value>, status: u16| {
        admin(&server, &key, method, path, body, status).await
    };
    add_ask(&server, &key).await;
    let post = || Method::POST;
    let entry = json!({ "fragment_id": "#svc", "service_type": "TestService" });
    call(post(), "/admin/service-entries", Some(entry), 201).await;
    let attach = json!({ "mode": "attach_account", "attached_account_did": project.did });
    call(post(), "/api/setup/identity", Some(attach), 204).await;

    let mut browser = Browser::default();
    assert_eq!(browser.login(&server, &operator, "atproto").await, "/page");
    assert_eq!(browser.login(&server, &project, "atproto identity:*").await, "/page");
    let confirm = server
        .request(post(), "/api/setup/attach-auth/confirm")
        .header("origin", &server.url)
        .json(&json!({ "original_did": operator.did }));
    let confirmed = browser.send(confirm).await;
    assert_eq!(confirmed.status(), 204, "{}", confirmed.text().await.unwrap());
    let me: Value = browser.send(server.request(Method::GET, "/auth/me")).await.json().await.unwrap();
    assert_eq!(me["did"], operator.did.as_str());

    let before = document(&network.plc, &project.did).await;
    call(post(), "/api/setup/plc/request", Some(json!({})), 204).await;
    let wrong = json!({ "token": "AAAAA-AAAAA" });
    call(post(), "/api/setup/plc/submit", Some(wrong), 400).await;
    let code = network.plc_code(&project).await;
    call(post(), "/api/setup/plc/submit", Some(json!({ "token": code })), 204).await;
    call(post(), "/api/setup/complete", Some(json!({})), 204).await;
    let after = document(&network.plc, &project.did).await;
    for kept in ["alsoKnownAs", "verificationMethod"] {
        assert_eq!(after[kept], before[kept], "{kept}");
    }
    assert_eq!(after["service"][0], before["service"][0], "the account's PDS");
    assert_eq!(
        (&after["service"][1]["id"], &after["service"][1]["serviceEndpoint"]),
        (&json!("#svc"), &json!(server.url))
    );
    let status = call(Method::GET, "/api/setup/status", None, 200).await;
    assert_eq!(status["plc_verified"], true, "{status}");
    // A PDS finds the service in the account's document.
    let answer = expect(200, alice.proxied(Method::GET, ASK, &format!("{}#svc", project.did))).await;
    assert_eq!(answer, json!({ "caller": alice.did }));

    // A later change takes another code.
    let entry = json!({ "fragment_id": "#second", "service_type": "TestService" });
    call(post(), "/admin/service-entries", Some(entry), 201).await;
    call(post(), "/admin/service-entries/sync-plc/request", None, 204).await;
    let code = network.plc_code(&project).await;
    call(post(), "/admin/service-entries/sync-plc/submit", Some(json!({ "token": code })), 204).await;
    let last = document(&network.plc, &project.did).await;
    assert_eq!(last["service"].as_array().unwrap().len(), 3, "{last}");
    server.stop().await;
}
