//! Statuses that scripts end with: `error({ status = …, error = …, message = … })`.

use belvedere_protocol::crypto::Algorithm;
use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, LIST, NOTES, World};
use crate::support::instance::{procedure_lexicon, query_lexicon};

async fn events(world: &World, kind: &str) -> Vec<Value> {
    let answer = world.server.admin(Method::GET, &format!("/admin/events?event_type={kind}"), None).await;
    answer.body["events"].as_array().unwrap_or_else(|| panic!("{}", answer.text)).clone()
}

/// The script of the README.
fn readme() -> String {
    let text = include_str!("../../../README.md");
    let script = text.split("<<'LUA'\n").nth(1).and_then(|rest| rest.split("\n    LUA").next()).unwrap();
    script.lines().map(|line| line.strip_prefix("    ").unwrap_or(line)).collect::<Vec<_>>().join("\n")
}

crate::in_both_worlds!(
    a_query_and_a_procedure_answer_with_it,
    other_statuses_are_errors_of_the_script,
    a_calling_script_sees_status_and_body,
    the_example_of_the_readme_refuses_a_bad_cursor
);

async fn a_query_and_a_procedure_answer_with_it(world: World) {
    let server = &world.server;
    let source = "local function deny(what) error({ status = tonumber(what.status), error = what.error, message = what.message }) end
            function handle() coroutine.wrap(deny)(input or params) end";
    server.upload(query_lexicon("com.example.get"), None).await;
    server.upload(procedure_lexicon("com.example.do"), None).await;
    server.bind("com.example.get", source).await;
    server.bind_to("xrpc.procedure:com.example.do", source).await;
    let verbose = server
        .admin(Method::PUT, "/admin/settings/verbose_event_logging", Some(&json!({ "value": "true" })))
        .await;
    assert!(verbose.status.is_success(), "{}", verbose.text);
    let alice = world.plc.person(ALICE, Algorithm::Es256k);
    for (status, error, message) in [
        (400, "InvalidRequest", Some("no \"such\" cursor")),
        (404, "list not found", None),
        (429, "RateLimited", Some("later")),
    ] {
        let mut expected = json!({ "error": error });
        let mut query = format!("status={status}&error={}", error.replace(' ', "+"));
        if let Some(message) = message {
            expected["message"] = json!(message);
            query += "&message=";
            query += &message.replace(' ', "+").replace('"', "%22");
        }
        let answer = server.xrpc(&format!("com.example.get?{query}")).await;
        assert_eq!((answer.status.as_u16(), &answer.body), (status, &expected), "{}", answer.text);
        assert!(!answer.headers.contains_key("retry-after"));
        let mut body = expected.clone();
        body["status"] = json!(status);
        let answer = server.procedure("com.example.do", &alice.token(&server.did(), json!({})), &body).await;
        assert_eq!((answer.status.as_u16(), &answer.body), (status, &expected), "{}", answer.text);
    }
    server
        .eventually("the runs are logged", async |_| events(&world, "script.executed").await.len() == 6)
        .await;
    assert!(events(&world, "script.error").await.is_empty(), "it is no error of the script");
}

async fn other_statuses_are_errors_of_the_script(world: World) {
    let server = &world.server;
    server.upload(query_lexicon("com.example.get"), None).await;
    for raised in ["{ status = 500, error = 'Secret' }", "{ status = 404 }", "{ status = 404, error = {} }"] {
        server.bind("com.example.get", &format!("function handle()\n error({raised})\nend")).await;
        let answer = server.xrpc("com.example.get").await;
        assert_eq!(
            (answer.status.as_u16(), &answer.body),
            (500, &json!({ "error": "script execution failed" })),
            "{raised}"
        );
        let event = &events(&world, "script.error").await[0];
        let message = event["detail"]["error"].as_str().unwrap();
        assert!(
            message.starts_with("xrpc.query:com.example.get:2: {") && message.contains("is no answer: "),
            "{message}"
        );
    }
}

async fn a_calling_script_sees_status_and_body(world: World) {
    let server = &world.server;
    for nsid in ["com.example.outer", "com.example.inner"] {
        server.upload(query_lexicon(nsid), None).await;
    }
    server
        .bind("com.example.inner", "function handle() error({ status = 404, error = 'NotFound' }) end")
        .await;
    server.bind("com.example.outer", "function handle()
            local answer = xrpc.query('com.example.inner')
            if params.again then error({ status = answer.status, error = json.decode(answer.body).error, message = 'outer' }) end
            return answer end").await;
    let seen = server.xrpc("com.example.outer").await;
    assert_eq!(seen.body, json!({ "status": 404, "body": r#"{"error":"NotFound"}"# }), "{}", seen.text);
    let again = server.xrpc("com.example.outer?again=1").await;
    assert_eq!(
        (again.status.as_u16(), &again.body),
        (404, &json!({ "error": "NotFound", "message": "outer" }))
    );
}

async fn the_example_of_the_readme_refuses_a_bad_cursor(mut world: World) {
    world = world.with_notes().await;
    world.note(ALICE, "a", json!({ "text": "hello" })).await;
    world.server.bind(LIST, &readme()).await;
    let good = world.server.xrpc(&format!("{LIST}?limit=5")).await;
    assert_eq!(good.body, json!({ "total": 1, "texts": ["hello"] }), "{} {NOTES}", good.text);
    for bad in ["cursor=nonsense", "limit=ten", "did=x"] {
        let answer = world.server.xrpc(&format!("{LIST}?{bad}")).await;
        let expected = json!({ "error": "InvalidRequest", "message": "invalid did, limit or cursor" });
        assert_eq!((answer.status.as_u16(), &answer.body), (400, &expected), "{bad}");
    }
}
