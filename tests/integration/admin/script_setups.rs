//! Setup scripts, which run when they are saved.

use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{LIST, World};
use crate::support::instance::{Answer, query_lexicon};

crate::in_both_worlds!(
    a_setup_runs_once_for_a_body,
    a_setup_that_fails_is_not_stored,
    tables_are_made_by_setups
);

const PATH: &str = "/admin/scripts/setup:runs";

/// A setup that counts its runs, in a table that it makes.
fn counting(more: &str) -> String {
    format!(
        "function handle()
           db.raw('CREATE TABLE IF NOT EXISTS script_runs (id integer PRIMARY KEY, n integer NOT NULL)')
           db.raw('INSERT INTO script_runs (id, n) VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET n = script_runs.n + 1')
           {more}
         end"
    )
}

async fn save(world: &World, body: &str) -> Answer {
    let script = json!({ "id": "setup:runs", "body": body });
    world.server.admin(Method::POST, "/admin/scripts", Some(&script)).await
}

/// The runs of [`counting`], as a script reads them.
async fn runs(world: &World) -> Value {
    let server = &world.server;
    server.upload(query_lexicon(LIST), None).await;
    let body = "function handle() return { n = db.raw('SELECT n FROM script_runs')[1].n } end";
    let script = json!({ "id": format!("xrpc.query:{LIST}"), "body": body });
    assert!(server.admin(Method::POST, "/admin/scripts", Some(&script)).await.status.is_success());
    server.xrpc(LIST).await.body["n"].clone()
}

async fn a_setup_runs_once_for_a_body(world: World) {
    let server = &world.server;
    assert_eq!(save(&world, &counting("")).await.status, 201);
    assert_eq!(runs(&world).await, 1);
    assert_eq!(save(&world, &counting("")).await.status, 200);
    let described = json!({ "body": counting(""), "description": "counts" });
    assert_eq!(server.admin(Method::PATCH, PATH, Some(&described)).await.status, 200);
    assert_eq!(runs(&world).await, 1, "the body has run");
    let change = json!({ "body": counting("log('again')"), "revision": 99 });
    assert_eq!(server.admin(Method::PATCH, PATH, Some(&change)).await.status, 409);
    assert_eq!(runs(&world).await, 1, "what is not stored for its revision does not run");
    let change = json!({ "body": counting("log('again')") });
    assert_eq!(server.admin(Method::PATCH, PATH, Some(&change)).await.status, 200);
    assert_eq!(runs(&world).await, 2);
    assert_eq!(server.admin(Method::DELETE, PATH, None).await.status, 204);
    assert_eq!(server.admin(Method::PATCH, PATH, Some(&change)).await.status, 404);
    assert_eq!(runs(&world).await, 2, "a change of what is not there does not run");
    assert_eq!(save(&world, &counting("log('again')")).await.status, 201);
    assert_eq!(runs(&world).await, 3);
    // A dry run lists what it would do.
    let dry_run = json!({ "id": "setup:runs", "event": { "type": "setup" } });
    let answer = server.admin(Method::POST, "/admin/scripts/dry-run", Some(&dry_run)).await;
    assert_eq!(answer.body["writes"].as_array().map(Vec::len), Some(2), "{}", answer.text);
    assert_eq!(runs(&world).await, 3);
}

async fn a_setup_that_fails_is_not_stored(world: World) {
    let server = &world.server;
    assert_eq!(save(&world, &counting("")).await.status, 201);
    for (more, reason) in [
        ("error('no luck')", "setup:runs:4: no luck"),
        ("db.raw('SELECT nothing')", "setup:runs:4: "),
        ("while true do end", "instructions"),
        ("local s = 'x' while true do s = s .. s end", "memory"),
    ] {
        let refused = save(&world, &counting(more)).await;
        assert_eq!(refused.status, 400, "{more}: {}", refused.text);
        let error = refused.body["error"].as_str().unwrap();
        assert!(
            error.starts_with("the setup failed and was not saved: ") && error.contains(reason),
            "{error}"
        );
    }
    let variable = json!({ "key": "API_KEY", "value": "secret value" });
    server.admin(Method::POST, "/admin/script-variables", Some(&variable)).await;
    let refused = save(&world, "function handle() error('no luck with ' .. env.API_KEY) end").await;
    assert!(
        refused.text.contains("no luck with") && !refused.text.contains("secret value"),
        "{}",
        refused.text
    );
    assert_eq!(server.admin(Method::GET, PATH, None).await.body["body"], counting(""));
    assert_eq!(runs(&world).await, 5);
    // It runs again, because it is not the stored one.
    assert_eq!(save(&world, &counting("local ok = true")).await.status, 200);
    assert_eq!(runs(&world).await, 6);
}

async fn tables_are_made_by_setups(world: World) {
    let body = "db.raw('CREATE TABLE IF NOT EXISTS script_a (a integer)')\nfunction handle() end";
    let script = json!({ "id": format!("xrpc.query:{LIST}"), "body": body });
    let refused = world.server.admin(Method::POST, "/admin/scripts", Some(&script)).await;
    assert_eq!(refused.status, 400);
    let error = refused.body["error"].as_str().unwrap();
    assert!(error.contains("made by handle() of a script setup:NAME"), "{error}");
}
