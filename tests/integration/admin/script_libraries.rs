//! Libraries of scripts: saving, changing and deleting them beside the scripts that require them.

use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{LIST, World};
use crate::support::instance::query_lexicon;

crate::in_both_worlds!(
    a_changed_library_serves_with_the_next_run,
    what_would_break_scripts_is_refused,
    a_library_is_checked_and_has_no_dry_run
);

const SCRIPT: &str = "local words = require('words')\nfunction handle() return { word = words.greet() } end";

async fn save(world: &World, id: &str, body: &str) -> (u16, String) {
    let script = json!({ "id": id, "body": body });
    let answer = world.server.admin(Method::POST, "/admin/scripts", Some(&script)).await;
    (answer.status.as_u16(), answer.body["error"].as_str().unwrap_or_default().to_owned())
}

async fn a_changed_library_serves_with_the_next_run(world: World) {
    let server = &world.server;
    server.upload(query_lexicon(LIST), None).await;
    let id = format!("xrpc.query:{LIST}");
    let (status, error) = save(&world, &id, SCRIPT).await;
    assert_eq!(status, 400);
    assert!(error.ends_with(&format!("{id}:1: there is no library \"words\": save it first")), "{error}");

    assert_eq!(save(&world, "lib:words", "return { greet = function() return 'hello' end }").await.0, 201);
    assert_eq!(save(&world, &id, SCRIPT).await.0, 201);
    assert_eq!(server.xrpc(LIST).await.body, json!({ "word": "hello" }));
    assert_eq!(save(&world, "lib:base", "return { word = 'moin' }").await.0, 201);
    let through = "local base = require('base') return { greet = function() return base.word end }";
    assert_eq!(save(&world, "lib:words", through).await.0, 200);
    assert_eq!(server.xrpc(LIST).await.body, json!({ "word": "moin" }));
    assert_eq!(save(&world, "lib:base", "return { word = 'hej' }").await.0, 200);
    assert_eq!(server.xrpc(LIST).await.body, json!({ "word": "hej" }));

    let names = server.admin(Method::GET, "/admin/scripts/names", None).await.body;
    let requires = |id: &str| {
        let script = names.as_array().unwrap().iter().find(|script| script["id"] == id).unwrap();
        script["requires"].clone()
    };
    assert_eq!(requires(&id), json!(["words"]));
    assert_eq!(requires("lib:words"), json!(["base"]));
    assert_eq!(requires("lib:base"), json!([]));
}

async fn what_would_break_scripts_is_refused(world: World) {
    let id = format!("xrpc.query:{LIST}");
    let eager = "local greeting = require('words').greet()\nfunction handle() return { g = greeting } end";
    assert_eq!(save(&world, "lib:words", "return { greet = function() return 'hello' end }").await.0, 201);
    assert_eq!(save(&world, &id, eager).await.0, 201);

    let (status, error) = save(&world, "lib:words", "return {}").await;
    assert_eq!(status, 400);
    assert!(error.contains(&format!("{id} would not load any more: {id}:1: attempt to call")), "{error}");
    let (status, error) = save(&world, "lib:words", "\nrequire('words')").await;
    assert_eq!(
        (status, error.contains("lib:words:2: libraries require each other in a circle")),
        (400, true)
    );

    let path = "/admin/scripts/lib:words";
    let refused = world.server.admin(Method::DELETE, path, None).await;
    assert_eq!(refused.status, 409);
    assert_eq!(refused.body["error"], format!("lib:words is required by {id}: change them first"));
    assert_eq!(world.server.admin(Method::DELETE, &format!("/admin/scripts/{id}"), None).await.status, 204);
    assert_eq!(world.server.admin(Method::DELETE, path, None).await.status, 204);
    for (name, reason) in [("lib:a.b", "not a name"), ("lib:a\0", "NUL"), ("lib:", "form")] {
        let (status, error) = save(&world, name, "return 1").await;
        assert_eq!((status, error.contains(reason)), (400, true), "{name:?}: {error}");
    }
}

async fn a_library_is_checked_and_has_no_dry_run(world: World) {
    let server = &world.server;
    let check = async |body: &str| {
        let script = json!({ "id": "lib:words", "body": body });
        server.admin(Method::POST, "/admin/scripts/check", Some(&script)).await.body
    };
    let fine = check("return xrpc.query('com.example.other')").await;
    assert_eq!(fine["diagnostics"][0]["kind"], "runtime", "{fine}");
    let fine = check("return function() return xrpc.query('com.example.other') end").await;
    assert_eq!(
        (&fine["ok"], &fine["outbound_xrpcs"]),
        (&json!(true), &json!(["com.example.other"])),
        "{fine}"
    );
    let missing = check("local a = 1\nlocal b = require('absent')").await;
    let found = &missing["diagnostics"][0];
    assert_eq!((&missing["ok"], &found["line"]), (&json!(false), &json!(2)), "{missing}");
    assert_eq!(found["message"], "there is no library \"absent\": save it first");

    let event = json!({ "type": "request" });
    let dry_run = json!({ "id": "lib:words", "body": "return 1", "event": event });
    let refused = server.admin(Method::POST, "/admin/scripts/dry-run", Some(&dry_run)).await;
    assert_eq!(
        (refused.status.as_u16(), &refused.body["error"]),
        (400, &Value::from("a library does not run by itself: try a script that requires it"))
    );
    // A dry run of a script has the stored libraries.
    assert_eq!(save(&world, "lib:words", "return { greet = function() return 'hello' end }").await.0, 201);
    let dry_run = json!({ "id": format!("xrpc.query:{LIST}"), "body": SCRIPT, "event": event });
    let answer = server.admin(Method::POST, "/admin/scripts/dry-run", Some(&dry_run)).await;
    assert_eq!(answer.body["result"]["body"]["word"], "hello", "{}", answer.text);
}
