//! Storing, checking, explaining and trying views.

use serde_json::json;

use super::*;
use crate::support::instance::query_lexicon;

crate::in_both_worlds!(
    mistakes_are_refused_with_their_places,
    a_method_has_a_script_or_a_view,
    a_view_follows_its_lexicon,
    a_view_is_explained_and_tried,
    a_dry_run_uses_what_is_known,
    indexes_are_asked_for_where_they_serve,
    a_record_of_another_collection_costs_no_look_up,
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
    let statements: Vec<_> = steps.iter().map(|step| step["statements"].as_u64().unwrap()).collect();
    assert_eq!(statements, [1, 2, 1, 2, 2]);
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

async fn a_dry_run_uses_what_is_known(world: World) {
    let mut world = social(world).await;
    for (did, handle) in [(ALICE, "alice.example"), (BOB, "bob.example")] {
        world.plc.host(did, "https://pds.example");
        world.plc.also_known_as(did, &json!([format!("at://{handle}")]));
        world.server.dns.txt(&format!("_atproto.{handle}"), &format!("did={did}"));
    }
    let blob = json!({ "$type": "blob", "ref": { "$link": PICTURE }, "mimeType": "image/png", "size": 1 });
    put(&mut world, vec![(BOB, POSTS, "b2", json!({ "$type": POSTS, "text": "look", "picture": blob }))])
        .await;
    let row = json!({ "key": "@rkey", "picture": "@blob:picture", "author": "@author" });
    let view = keys_of(json!({ "where": { "did": "$actor" }, "with": { "author": { "profile": "did" } } }));
    let view = json!({ "output": { "feed": [row], "cursor": "@cursor" }, "view": 1, "from": POSTS,
        "where": view["where"], "with": view["with"] });
    let actor = json!({ "type": "string", "format": "at-identifier" });
    serve(&world, paged(json!({ "actor": actor })), view).await;
    world.server.upload(query_lexicon("com.example.read"), None).await;
    let run = async |id: &str, source: Option<String>, actor: &str, network: bool| {
        let body = json!({ "id": id, "body": source, "network": network,
            "event": { "type": "request", "params": { "actor": actor, "limit": "1" } } });
        let answer = world.server.admin(Method::POST, "/admin/scripts/dry-run", Some(&body)).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.body["result"].clone()
    };
    let tried =
        async |actor: &str, network: bool| run(&format!("xrpc.view:{METHOD}"), None, actor, network).await;
    // A script, whose call of the view is one of the dry run.
    let nested = async |actor: &str| {
        let source = format!(
            "function handle() db.profiles({{ '{BOB}' }}) return json.decode(xrpc.query('{METHOD}', {{ actor = params.actor, limit = 1 }}).body) end"
        );
        run("xrpc.query:com.example.read", Some(source), actor, false).await
    };
    let refused = tried("bob.example", false).await;
    assert_eq!(refused["status"], 502, "{refused}");
    assert!(
        refused.to_string().contains("actor: it is not cached, and this run may not use the network"),
        "{refused}"
    );
    let known =
        json!({ "key": "b2", "author": { "did": BOB, "handle": "handle.invalid", "displayName": "Bob" } });
    assert_eq!(tried(BOB, false).await["body"]["feed"][0], known);
    let answer = nested(BOB).await;
    assert_eq!(answer["body"]["feed"][0], known, "{answer}");

    // Alice, whom a call shows, is looked up in the background, and Bob is not.
    let shows_handle = async |_: &Instance| {
        body(&world, &format!("actor={ALICE}")).await["feed"][0]["author"]["handle"] == "alice.example"
    };
    world.server.eventually("the handle is known", shows_handle).await;
    assert_eq!(world.server.dns.queries("bob.example"), 0);

    let with_network = tried("bob.example", true).await;
    assert!(with_network["body"]["feed"][0]["picture"].as_str().unwrap().contains(PICTURE), "{with_network}");
    assert!(world.server.dns.queries("bob.example") > 0);
    let cached = tried("bob.example", false).await;
    assert!(cached["body"]["feed"][0]["picture"].as_str().unwrap().contains(PICTURE), "{cached}");
    let recorded = world.server.admin(Method::GET, "/admin/events?type=script.executed", None).await;
    assert!(!recorded.text.contains(BOB), "{}", recorded.text);
}

async fn indexes_are_asked_for_where_they_serve(world: World) {
    let world = social(world).await;
    world.server.upload(lexicon(paged(json!({}))), None).await;
    let script = json!({ "id": format!("xrpc.query:{METHOD}"), "body": "function handle() return {} end" });
    assert!(world.server.admin(Method::POST, "/admin/scripts", Some(&script)).await.status.is_success());
    assert_eq!(store(&world, &keys_of(json!({ "where": { "refused": 1 } }))).await.status, 400);
    let path = format!("/admin/scripts/xrpc.query%3A{METHOD}");
    assert_eq!(world.server.admin(Method::DELETE, &path, None).await.status, 204);
    let conditions = json!({
        "all": [{ "n": { "gte": 1, "lt": 9 } }, { "any": [{ "createdAt": { "gt": "2026" } }] }],
        "any": [{ "mood": "glad" }, { "mood": "sad" }],
        "reply": { "missing": true }, "text": { "contains": "o" }
    });
    serve(&world, paged(json!({})), keys_of(json!({ "where": conditions }))).await;
    assert_eq!(column(&body(&world, "").await, "key"), ["a1"]);
    let id = json!({ "id": format!("xrpc.view:{METHOD}") });
    let explained = world.server.admin(Method::POST, "/admin/scripts/explain", Some(&id)).await;
    let indexes = explained.body["steps"][0]["indexes"].as_array().unwrap();
    let kinds: Vec<&str> = indexes.iter().map(|index| index.as_str().unwrap()).collect();
    let unless = "the read is a scan, unless the other conditions leave few records";
    let begins = ["records_list", "filter of n (", "filter of createdAt ("];
    for begin in begins {
        assert!(kinds.iter().any(|kind| kind.starts_with(begin)), "{begin}: {kinds:?}");
    }
    for part in ["any", "missing of reply", "contains of text"] {
        assert!(kinds.contains(&&*format!("none for {part}: {unless}")), "{part}: {kinds:?}");
    }
    assert_eq!(kinds.len(), 6, "{kinds:?}");
    let is_asked_for = async |server: &Instance| {
        let stats = server.admin(Method::GET, "/admin/stats/indexes", None).await.text;
        assert!(!stats.contains("refused"), "{stats}");
        stats.contains("\"n\"") && stats.contains("\"createdAt\"")
    };
    world.server.eventually("the indexes are asked for", is_asked_for).await;
}

async fn a_record_of_another_collection_costs_no_look_up(world: World) {
    let world = social(world).await;
    let one = json!({ "view": 1, "from": { "uri": "$uri", "collection": POSTS }, "output": { "post": { "key": "@rkey" } } });
    let tree = json!({ "view": 1, "from": { "tree": "$uri", "collection": POSTS, "path": "reply.parent.uri" },
        "output": { "thread": { "key": "@rkey", "replies": "@children" } } });
    for view in [one, tree] {
        serve(&world, json!({ "uri": { "type": "string", "format": "at-uri" } }), view).await;
        let other = call(&world, &format!("uri=at://other.example/{LIKES}/l1")).await;
        assert_eq!(other.status, 404, "{}", other.text);
        assert_eq!(world.server.dns.queries("other.example"), 0);
    }
    let unknown = call(&world, &format!("uri=at://other.example/{POSTS}/a1")).await;
    assert_eq!(unknown.status, 400, "{}", unknown.text);
    assert!(world.server.dns.queries("other.example") > 0);
}

async fn the_schema_is_served(world: World) {
    let answer = world.server.request(Method::GET, "/view.schema.json", &[], None).await;
    assert_eq!((answer.status.as_u16(), &answer.body["title"]), (200, &json!("View")));
}
