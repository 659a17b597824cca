//! `xrpc.*` in scripts: methods of this server in process, and of others.

use belvedere_protocol::crypto::Algorithm;
use belvedere_standins::upstream::respond;
use http::Method;
use serde_json::json;

use super::forward::authority;
use crate::fixtures::{ALICE, LIST, NOTES, World};
use crate::support::instance::{procedure_lexicon, query_lexicon};

const OUTER: &str = "com.example.outer";
const INNER: &str = "com.example.inner";

async fn query_scripts(world: &World, outer: &str, inner: &str) {
    for (nsid, source) in [(OUTER, outer), (INNER, inner)] {
        world.server.upload(query_lexicon(nsid), Some(NOTES)).await;
        world.server.bind(nsid, source).await;
    }
}

crate::in_both_worlds!(
    a_local_method_is_called_as_the_same_caller,
    error_statuses_are_returned_not_raised,
    invalid_calls_and_missing_permissions_are_errors,
    recursion_is_limited,
    names_and_params_are_those_of_a_request,
    each_call_is_charged,
    a_procedure_calls_another_and_a_foreign_server_gets_no_proof,
    an_unavailable_server_is_an_error
);

async fn a_local_method_is_called_as_the_same_caller(mut world: World) {
    world = world.with_notes().await;
    world.note(ALICE, "a", json!({ "text": "hello" })).await;
    world.plc.person("did:plc:x", Algorithm::Es256k);
    let outer = format!(
        "function handle()
            local scripted = xrpc.query('{INNER}', {{ n = 5, on = true, tags = {{ 'a', 'b' }} }})
            local builtin = xrpc.query('{LIST}', {{ limit = 1 }})
            return {{ scripted = json.decode(scripted.body), status = scripted.status,
                text = json.decode(builtin.body).records[1].text }} end"
    );
    let inner = "function handle() return { params = params, caller = caller_did, method = method } end";
    query_scripts(&world, &outer, inner).await;
    let server = &world.server;
    let alice = world.plc.person(ALICE, Algorithm::Es256k);
    let token = format!("Bearer {}", alice.token(&server.did(), json!({ "lxm": OUTER })));
    let headers = [("x-client-key", server.client_key.as_str()), ("authorization", token.as_str())];
    let answer = server.request(Method::GET, &format!("/xrpc/{OUTER}"), &headers, None).await;
    assert_eq!(
        answer.body,
        json!({ "status": 200, "text": "hello", "scripted": {
            "params": { "n": "5", "on": "true", "tags": ["a", "b"] }, "caller": ALICE, "method": INNER } })
    );
    let anonymous = server.xrpc(OUTER).await;
    assert!(anonymous.body["scripted"].get("caller").is_none(), "{}", anonymous.text);
}

async fn error_statuses_are_returned_not_raised(world: World) {
    let outer = format!(
        "function handle()
            local out = toarray({{}})
            for i, nsid in ipairs {{ '{INNER}', 'com.nowhere.get', '{LIST}' }} do
                local answer = xrpc.query(nsid, {{ limit = 'ten' }})
                out[i] = {{ answer.status, json.decode(answer.body).error }}
            end
            return out end"
    );
    query_scripts(&world, &outer, "function handle() error('secret') end").await;
    world.server.upload(query_lexicon(LIST), Some(NOTES)).await;
    let answer = world.server.xrpc(OUTER).await;
    assert_eq!(
        answer.body,
        json!([
            [500, "script execution failed"],
            [404, "method not found"],
            [400, "limit must be a number from 1 to 100"]
        ]),
        "{}",
        answer.text
    );
}

async fn invalid_calls_and_missing_permissions_are_errors(world: World) {
    let outer = format!("function handle()
            local function code(f, ...) local _, e = pcall(f, ...) return e.code end
            return {{ code(xrpc.query, 'nonsense'), code(xrpc.query, 'com.example.act'), code(xrpc.procedure, '{INNER}', {{}}),
                code(xrpc.query), code(xrpc.query, '{INNER}', 'x'), code(xrpc.query, '{INNER}', {{ a = {{ {{}} }} }}) }} end");
    query_scripts(&world, &outer, "function handle() return {} end").await;
    world.server.upload(procedure_lexicon("com.example.act"), None).await;
    let answer = world.server.xrpc(OUTER).await;
    let bad = "bad-input";
    assert_eq!(answer.body, json!([bad, bad, "forbidden", bad, bad, bad]), "{}", answer.text);
}

async fn recursion_is_limited(world: World) {
    let source = format!(
        "function handle()
            local ok, answer = pcall(xrpc.query, '{OUTER}')
            if not ok then return {{ depth = 0, code = answer.code }} end
            local inner = json.decode(answer.body)
            return {{ depth = inner.depth + 1, code = inner.code }} end"
    );
    query_scripts(&world, &source, "function handle() end").await;
    let answer = world.server.xrpc(OUTER).await;
    assert_eq!(answer.body, json!({ "depth": 8, "code": "limit" }), "{}", answer.text);
}

async fn names_and_params_are_those_of_a_request(world: World) {
    let outer = format!("function handle()
            local function code(params) local _, e = pcall(xrpc.query, '{INNER}', params) return e.code end
            local upper = xrpc.query('COM.EXAMPLE' .. ('{INNER}'):sub(12), {{ client_key = 'secret', n = 1 }})
            return {{ upper = json.decode(upper.body), nul = code({{ n = 'a\\0b' }}),
                large = code({{ [('n'):rep(2000)] = toarray({{ ('x'):rep(30000), ('x'):rep(30000), 'x' }}) }}) }} end");
    query_scripts(&world, &outer, "function handle() return params end").await;
    let answer = world.server.xrpc(OUTER).await;
    let expected = json!({ "upper": { "n": "1" }, "nul": "bad-input", "large": "bad-input" });
    assert_eq!(answer.body, expected, "{}", answer.text);
}

async fn each_call_is_charged(world: World) {
    let outer = format!(
        "function handle()
            local n = 0
            for i = 1, 40 do if xrpc.query('{INNER}').status == 429 then n = n + 1 end end
            return {{ refused = n }} end"
    );
    query_scripts(&world, &outer, "function handle() return {} end").await;
    let client = json!({ "name": "poor", "client_id_url": "https://poor.example/client.json",
        "client_uri": "https://poor.example", "redirect_uris": [],
        "rate_limit_capacity": 11, "rate_limit_refill_rate": 0.001 });
    let made = world.server.admin(Method::POST, "/admin/api-clients", Some(&client)).await;
    let key = made.body["client_key"].as_str().unwrap();
    let answer =
        world.server.request(Method::GET, &format!("/xrpc/{OUTER}"), &[("x-client-key", key)], None).await;
    assert_eq!(answer.body, json!({ "refused": 30 }), "{}", answer.text);
}

async fn a_procedure_calls_another_and_a_foreign_server_gets_no_proof(world: World) {
    let pds = authority(&world, |_| respond(201, "application/json", r#"{"ok":true}"#)).await;
    let server = &world.server;
    for nsid in ["com.example.first", "com.example.second"] {
        server.upload(procedure_lexicon(nsid), None).await;
    }
    server.bind_to("xrpc.procedure:com.example.first", "function handle()
            local second = json.decode(xrpc.procedure('com.example.second', { text = input.text .. '!' }).body)
            local other = xrpc.procedure('net.example.tell', { list = toarray({}) }, { q = 1 })
            return { second = second, other = other.status } end").await;
    server
        .bind_to(
            "xrpc.procedure:com.example.second",
            "function handle() return { text = input.text, caller = caller_did } end",
        )
        .await;
    let alice = world.plc.person(ALICE, Algorithm::Es256k);
    let token = alice.token(&server.did(), json!({}));
    let answer = server.procedure("com.example.first", &token, &json!({ "text": "hi" })).await;
    assert_eq!(
        answer.body,
        json!({ "second": { "text": "hi!", "caller": ALICE }, "other": 201 }),
        "{}",
        answer.text
    );
    let requests = pds.requests();
    assert_eq!(
        (requests[0].path_and_query.as_str(), &*requests[0].body),
        ("/xrpc/net.example.tell?q=1", &br#"{"list":[]}"#[..])
    );
    assert!(!requests[0].headers.contains_key("authorization"));
    // The operator's forwarding rules apply to scripts too.
    let rules = json!({ "mode": "disabled", "nsids": [] });
    server.admin(Method::PUT, "/admin/settings/xrpc-proxy", Some(&rules)).await;
    server
        .bind_to(
            "xrpc.procedure:com.example.second",
            "function handle() return { xrpc.query('net.example.get').status } end",
        )
        .await;
    let token = alice.token(&server.did(), json!({}));
    let answer = server.procedure("com.example.second", &token, &json!({})).await;
    assert_eq!(answer.body, json!([403]), "{}", answer.text);
}

async fn an_unavailable_server_is_an_error(world: World) {
    world.server.dns.txt("_lexicon.down.example", "did=did:plc:downdowndowndowndowndown");
    world.plc.host("did:plc:downdowndowndowndowndown", "http://127.0.0.1:9");
    let outer = "function handle() local _, e = pcall(xrpc.query, 'example.down.get') return { e.code } end";
    query_scripts(&world, outer, "function handle() end").await;
    let answer = world.server.xrpc(OUTER).await;
    assert_eq!(answer.body, json!(["unavailable"]), "{}", answer.text);
}
