//! U+0000 is refused before a handler runs, on every route, in path, query and body, on both databases.

use crate::fixtures::World;
use belvedere::api::routes;
use belvedere_protocol::crypto::Algorithm;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::instance::{Answer, procedure_lexicon, query_lexicon};

/// Every query parameter that some route reads.
const PARAMETERS: [&str; 29] = [
    "uri",
    "did",
    "didOrHandle",
    "actor",
    "id",
    "nsid",
    "collection",
    "limit",
    "cursor",
    "q",
    "search",
    "sort",
    "direction",
    "status",
    "phase",
    "type",
    "subject",
    "severity",
    "script",
    "handle",
    "state",
    "code",
    "iss",
    "token",
    "client_key",
    "redirect_uri",
    "collections",
    "documents",
    "any%00name",
];

/// Every field that some route's body has.
const FIELDS: [&str; 48] = [
    "lexicon_json",
    "lexicons",
    "target_collection",
    "index_hook",
    "id",
    "uri",
    "collection",
    "rkey",
    "repo",
    "record",
    "swapRecord",
    "name",
    "description",
    "body",
    "script_type",
    "key",
    "value",
    "url",
    "did",
    "kinds",
    "handle",
    "role",
    "permissions",
    "template",
    "client_id_url",
    "client_uri",
    "redirect_uris",
    "scopes",
    "allowed_origins",
    "client_type",
    "provision_id",
    "access_token",
    "refresh_token",
    "pds_url",
    "issuer",
    "session_id",
    "aud",
    "pkce_verifier",
    "delegateDid",
    "mode",
    "nsids",
    "origin",
    "sha256",
    "accepted_capabilities",
    "granted",
    "secrets",
    "config",
    "collections",
];

const PROCEDURE: &str = "com.example.do";
const QUERY: &str = "com.example.ask";

/// A path of the table with each parameter set to `value`.
fn with_parameters(path: &str, value: &str) -> String {
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/xrpc/dev.service.{path}") };
    let parts = path.split('/').map(|part| if part.starts_with('{') { value } else { part });
    parts.collect::<Vec<_>>().join("/")
}

fn refused(what: &str, answer: &Answer) {
    assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{what}: {}", answer.text);
    assert!(answer.error().contains("NUL"), "{what}: {}", answer.text);
}

crate::in_both_worlds!(is_a_400_on_every_route_and_never_a_500, is_no_500_in_a_token_or_a_procedure_either);

async fn is_a_400_on_every_route_and_never_a_500(world: World) {
    let server = &world.server;
    server.upload(procedure_lexicon(PROCEDURE), None).await;
    server.bind_to(&format!("xrpc.procedure:{PROCEDURE}"), "function handle() return {} end").await;
    let flag = json!({ "value": "true" });
    server.admin(Method::PUT, "/admin/settings/feature.spaces_enabled", Some(&flag)).await;
    let key = format!("Bearer {}", server.admin_key);
    let send = async |method: &Method, path: &str, body: Option<String>| {
        let mut headers = vec![("x-client-key", server.client_key.as_str())];
        if path.starts_with("/admin") {
            headers.push(("authorization", &key));
        }
        let body = body.filter(|_| *method != Method::GET);
        server.request(method.clone(), path, &headers, body).await
    };
    let mut walked = 0;
    for (method, path) in routes::all() {
        if path.contains('{') {
            for value in ["%00", "a%00b"] {
                let at = with_parameters(path, value);
                refused(&format!("{method} {at}"), &send(&method, &at, None).await);
            }
        }
        let path = with_parameters(path, "com.example.x");
        for name in PARAMETERS {
            let at = format!("{path}?{name}=a%00b");
            refused(&format!("{method} {at}"), &send(&method, &at, None).await);
        }
        walked += 1;
        if method == Method::GET {
            continue;
        }
        let all: serde_json::Map<String, Value> =
            FIELDS.iter().map(|name| ((*name).to_owned(), json!("a\0b"))).collect();
        let mut bodies = vec![Value::Object(all), json!({ "a\0": 1 }), json!([{ "deep": ["\0"] }])];
        bodies.extend(FIELDS.iter().map(|name| json!({ *name: "\0" })));
        for body in bodies {
            let answer = send(&method, &path, Some(body.to_string())).await;
            let what = format!("{method} {path} {body}");
            assert!(!answer.status.is_server_error(), "{what}: {}", answer.text);
            // An image may contain any byte, and other routes refuse the caller before they read the body.
            if path.starts_with("/admin")
                && path != "/admin/settings/logo"
                && !answer.error().contains("super user")
            {
                refused(&what, &answer);
            }
        }
    }
    assert!(walked > 80, "{walked} routes");
}

async fn is_no_500_in_a_token_or_a_procedure_either(world: World) {
    let server = &world.server;
    server.upload(procedure_lexicon(PROCEDURE), None).await;
    let script = "function handle() return { seen = input } end";
    server.bind_to(&format!("xrpc.procedure:{PROCEDURE}"), script).await;
    let person = world.plc.person("did:plc:person", Algorithm::Es256k);
    let token = |claims: Value| person.token(&server.did(), claims);
    for claims in [
        json!({ "jti": "a\0b" }),
        json!({ "lxm": "com.example.\0" }),
        json!({ "iss": "did:plc:\0" }),
        json!({ "iss": "did:web:\0.example" }),
        json!({ "aud": "did:web:\0" }),
    ] {
        let answer = server.procedure(PROCEDURE, &token(claims.clone()), &json!({})).await;
        assert!(!answer.status.is_server_error(), "{claims}: {}", answer.text);
    }
    let answer = server.procedure(PROCEDURE, &token(json!({})), &json!({ "text": "a\0b" })).await;
    refused("the body of a procedure", &answer);
    // Calls by scripts do not go through the HTTP server's check.
    server.upload(query_lexicon(QUERY), None).await;
    let script = format!(
        "function handle() \
        local ok = pcall(xrpc.query, '{QUERY}', {{ text = params.n and 'a\\0b' or 'ab' }}) \
        return {{ ok = ok }} end"
    );
    server.bind("com.example.outer", &script).await;
    server.upload(query_lexicon("com.example.outer"), None).await;
    server.bind(QUERY, "function handle() return {} end").await;
    for (query, ok) in [("com.example.outer", true), ("com.example.outer?n=1", false)] {
        let answer = server.xrpc(query).await;
        assert_eq!(answer.body, json!({ "ok": ok }), "{}", answer.text);
    }
    // An escaped backslash before u0000 is no NUL, and neither is %2500.
    let answer = server.procedure(PROCEDURE, &token(json!({})), &json!({ "text": "\\u0000" })).await;
    assert_eq!(
        (answer.status, &answer.body["seen"]["text"]),
        (StatusCode::OK, &json!("\\u0000")),
        "{}",
        answer.text
    );
    let answer = server.request(Method::GET, "/oauth/clients/%2500/jwks.json", &[], None).await;
    assert_eq!((answer.status, &answer.body), (StatusCode::OK, &json!({ "keys": [] })), "{}", answer.text);
    let answer = server.request(Method::GET, "/oauth/clients/%00/jwks.json", &[], None).await;
    refused("without any login", &answer);
}
