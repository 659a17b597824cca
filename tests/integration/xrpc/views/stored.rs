//! Storing, checking, explaining and trying views.

use serde_json::json;

use super::*;

crate::in_both_worlds!(
    mistakes_are_refused_with_their_places,
    a_method_has_a_script_or_a_view,
    a_view_follows_its_lexicon,
    a_view_is_explained_and_tried,
    the_schema_is_served
);

async fn mistakes_are_refused_with_their_places(world: World) {
    let world = social(world).await;
    let early = store(&world, &keys_of(json!({}))).await;
    assert_eq!(early.status, 400);
    assert!(early.text.contains("has no lexicon here: upload it first"), "{}", early.text);
    world.server.upload(lexicon(json!({})), None).await;
    let refused = store(&world, &keys_of(json!({ "where": { "mood": "$mood" }, "hide": ["x"] }))).await;
    assert_eq!(refused.status, 400);
    assert!(
        refused.error().contains("the view has mistakes: hide: \"x\" is neither labels:VALUE,"),
        "{}",
        refused.text
    );
    let compared = store(&world, &keys_of(json!({ "where": { "mood": "$mood" } }))).await;
    assert!(compared.error().contains("where: the lexicon declares no parameter mood"), "{}", compared.text);
    assert!(
        compared.error().contains("output: the output has a @cursor: declare a parameter"),
        "{}",
        compared.text
    );
    for text in ["", "{", "[]", "null", "\u{0}", "{\"view\":1}", &"[".repeat(10_000)] {
        let body = json!({ "id": format!("xrpc.view:{METHOD}"), "body": text });
        let answer = world.server.admin(Method::POST, "/admin/scripts", Some(&body)).await;
        assert_eq!(answer.status, 400, "{text}: {}", answer.text);
    }
    let check = json!({ "id": format!("xrpc.view:{METHOD}"), "body": "{}" });
    let checked = world.server.admin(Method::POST, "/admin/scripts/check", Some(&check)).await;
    assert_eq!((checked.status.as_u16(), &checked.body["ok"]), (200, &json!(false)), "{}", checked.text);
    assert_eq!(checked.body["diagnostics"][0]["kind"], "view");
    let body = json!({ "id": "xrpc.view:app.bsky.actor.getProfile", "body": "{}" });
    let fixed = world.server.admin(Method::POST, "/admin/scripts", Some(&body)).await;
    assert!(fixed.error().contains("only a script can replace"), "{}", fixed.text);
}

async fn a_method_has_a_script_or_a_view(world: World) {
    let world = social(world).await;
    serve(&world, paged(json!({})), keys_of(json!({}))).await;
    let script = json!({ "id": format!("xrpc.query:{METHOD}"), "body": "function handle() return {} end" });
    let refused = world.server.admin(Method::POST, "/admin/scripts", Some(&script)).await;
    assert_eq!(refused.status, 400);
    assert!(refused.error().contains(&format!("delete xrpc.view:{METHOD} first")), "{}", refused.text);
    let path = format!("/admin/scripts/xrpc.view%3A{METHOD}");
    let found = world.server.admin(Method::GET, &path, None).await;
    assert_eq!(found.body["script_type"], "view", "{}", found.text);
    assert_eq!(world.server.admin(Method::DELETE, &path, None).await.status, 204);
    assert!(call(&world, "").await.body.get("records").is_some(), "the built-in answer is back");
    assert!(world.server.admin(Method::POST, "/admin/scripts", Some(&script)).await.status.is_success());
    let view = store(&world, &keys_of(json!({}))).await;
    assert!(view.error().contains(&format!("delete xrpc.query:{METHOD} first")), "{}", view.text);
}

async fn a_view_follows_its_lexicon(world: World) {
    let world = social(world).await;
    let string = json!({ "type": "string" });
    serve(&world, paged(json!({ "mood": string })), keys_of(json!({ "where": { "mood": "$mood" } }))).await;
    assert_eq!(column(&body(&world, "mood=sad").await, "key"), ["b1"]);
    world.server.upload(lexicon(paged(json!({}))), None).await;
    let answer = call(&world, "mood=sad").await;
    assert_eq!((answer.status.as_u16(), answer.error()), (500, "InternalServerError"));
    let message = answer.body["message"].as_str().unwrap();
    assert!(
        message.contains("does not fit its lexicon: where: the lexicon declares no parameter mood"),
        "{message}"
    );
    world.server.upload(lexicon(paged(json!({ "mood": string }))), None).await;
    assert_eq!(column(&body(&world, "mood=sad").await, "key"), ["b1"], "it fits again");
}

async fn a_view_is_explained_and_tried(world: World) {
    let world = social(world).await;
    let view = keys_of(json!({
        "where": { "mood": "$mood" }, "order": ["-n"], "hide": [format!("viewer:{BLOCKS}")],
        "with": { "likes": { "count": LIKES }, "last": { "list": POSTS, "path": "reply.parent.uri", "limit": 3,
            "with": { "author": { "profile": "did" } } } }
    }));
    serve(&world, paged(json!({ "mood": { "type": "string" } })), view).await;
    let id = format!("xrpc.view:{METHOD}");
    let explained =
        world.server.admin(Method::POST, "/admin/scripts/explain", Some(&json!({ "id": id }))).await;
    assert_eq!(explained.status, 200, "{}", explained.text);
    let steps = explained.body["steps"].as_array().unwrap();
    let names: Vec<_> = steps.iter().map(|step| step["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ["hide viewer:com.example.block", "from", "with.last", "with.last.with.author", "with.likes"]
    );
    let indexes = steps[1]["indexes"].to_string();
    assert!(indexes.contains("filter of mood") && indexes.contains("sort of n"), "{indexes}");
    let event = json!({ "type": "request", "params": { "mood": "glad" }, "caller_did": CAROL });
    let body = json!({ "id": id, "event": event });
    let tried = world.server.admin(Method::POST, "/admin/scripts/dry-run", Some(&body)).await;
    assert_eq!(tried.status, 200, "{}", tried.text);
    assert_eq!(column(&tried.body["result"]["body"], "key"), ["c1", "a1"], "{}", tried.text);
    let url = format!("http://{}", world.server.address);
    let output =
        world.server.run(&["view", "explain", METHOD, "--url", &url, "--key", &world.server.admin_key]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("from: a page of com.example.post"), "{text}");
}

async fn the_schema_is_served(world: World) {
    let answer = world.server.request(Method::GET, "/view.schema.json", &[], None).await;
    assert_eq!((answer.status.as_u16(), &answer.body["title"]), (200, &json!("View")));
}
