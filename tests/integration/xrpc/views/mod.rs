//! Views: query methods that a document answers.

mod hiding;
mod joins;
mod lists;
mod stored;
mod trees;

use belvedere_protocol::crypto::Algorithm;
use belvedere_standins::jetstream::{Frame, Place};
use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, BOB, World};
use crate::support::instance::{Answer, Instance, record_lexicon};
use crate::support::plc::Person;

const CAROL: &str = "did:plc:carolcarolcarolcarolcaro";
const METHOD: &str = "com.example.getFeed";
const POSTS: &str = "com.example.post";
const PROFILES: &str = "com.example.profile";
const LIKES: &str = "com.example.like";
const FOLLOWS: &str = "com.example.follow";
const BLOCKS: &str = "com.example.block";
const CID: &str = "bafyreib2rxk3rybk3aobmv5cjuql3bm2twh4jo5uxgf5kpqcsgz7soitae";

/// A strong reference to a post.
fn reference(did: &str, rkey: &str) -> Value {
    json!({ "uri": uri(did, rkey), "cid": CID })
}

fn uri(did: &str, rkey: &str) -> String {
    format!("at://{did}/{POSTS}/{rkey}")
}

/// A record of [`social`]: its author, collection, key and text.
type Put<'a> = (&'a str, &'a str, &'a str, Value);

/// Writes records one after the other, so that they are indexed in this order.
async fn put(world: &mut World, records: Vec<Put<'_>>) {
    let before = world.server.records().await;
    for (wanted, (did, collection, rkey, record)) in (before + 1..).zip(records) {
        world.push(|at, rev| Frame::create(at, Place { did, collection, rkey, rev }, &record));
        let indexed = async |server: &Instance| server.records().await == wanted;
        world.server.eventually("the record is indexed", indexed).await;
    }
}

/// Writes many records of a collection at once: the author, the key and the record of each.
async fn put_all(
    world: &mut World,
    collection: &str,
    records: impl ExactSizeIterator<Item = (&'static str, String, Value)>,
) {
    let wanted = world.server.records().await + records.len() as u64;
    for (did, rkey, record) in records {
        world.push(|at, rev| Frame::create(at, Place { did, collection, rkey: &rkey, rev }, &record));
    }
    let indexed = async |server: &Instance| server.records().await as u64 == wanted as u64;
    world.server.eventually("the records are indexed", indexed).await;
}

/// Alice and Bob write posts, Carol replies, likes, follows Alice and blocks Bob.
async fn social(mut world: World) -> World {
    for collection in [POSTS, PROFILES, LIKES, FOLLOWS, BLOCKS] {
        world.server.upload(record_lexicon(collection), None).await;
        world.wait_for_stream_of(collection).await;
    }
    let body = json!({ "value": PROFILES });
    let set = world.server.admin(Method::PUT, "/admin/settings/profile_collection", Some(&body)).await;
    assert_eq!(set.status, 204, "{}", set.text);
    let post = |text: &str, day: u32, mood: &str| json!({ "$type": POSTS, "text": text, "createdAt": format!("2026-01-0{day}T00:00:00Z"), "mood": mood, "n": day });
    let with = |mut post: Value, name: &str, value: Value| {
        post[name] = value;
        post
    };
    let like = |of: Value| json!({ "$type": LIKES, "subject": of });
    let reply = |to: Value| json!({ "parent": to });
    put(
        &mut world,
        vec![
            (ALICE, PROFILES, "self", json!({ "$type": PROFILES, "displayName": "Alice" })),
            (BOB, PROFILES, "self", json!({ "$type": PROFILES, "displayName": "Bob" })),
            (ALICE, POSTS, "a1", post("one word", 1, "glad")),
            (BOB, POSTS, "b1", with(post("two", 2, "sad"), "reply", reply(reference(ALICE, "a1")))),
            (
                ALICE,
                POSTS,
                "a2",
                with(post("three word", 3, "mad"), "embed", json!({ "record": reference(BOB, "b1") })),
            ),
            (CAROL, POSTS, "c1", with(post("four", 4, "glad"), "reply", reply(reference(BOB, "b1")))),
            (BOB, LIKES, "l1", like(reference(ALICE, "a1"))),
            (CAROL, LIKES, "l2", like(reference(ALICE, "a1"))),
            (CAROL, LIKES, "l3", like(reference(BOB, "b1"))),
            (CAROL, FOLLOWS, "f1", json!({ "$type": FOLLOWS, "subject": ALICE })),
            (CAROL, BLOCKS, "x1", json!({ "$type": BLOCKS, "subject": BOB })),
        ],
    )
    .await;
    world
}

/// A lexicon of a query with these parameters, and an output without further rules.
fn lexicon(parameters: Value) -> Value {
    let any = json!({ "type": "unknown" });
    json!({ "lexicon": 1, "id": METHOD, "defs": { "main": {
        "type": "query",
        "parameters": { "type": "params", "properties": parameters },
        "output": { "encoding": "application/json", "schema": { "type": "object", "properties": {
            "feed": { "type": "array", "items": any }, "thread": any, "post": any, "cursor": { "type": "string" } } } }
    } } })
}

/// The parameters of a page.
fn paged(mut more: Value) -> Value {
    more["limit"] = json!({ "type": "integer" });
    more["cursor"] = json!({ "type": "string" });
    more
}

async fn store(world: &World, view: &Value) -> Answer {
    let body = json!({ "id": format!("xrpc.view:{METHOD}"), "body": view.to_string() });
    world.server.admin(Method::POST, "/admin/scripts", Some(&body)).await
}

/// Uploads the lexicon and stores the view.
async fn serve(world: &World, parameters: Value, view: Value) {
    world.server.upload(lexicon(parameters), None).await;
    let answer = store(world, &view).await;
    assert!(answer.status.is_success(), "{}", answer.text);
}

async fn call(world: &World, query: &str) -> Answer {
    world.server.xrpc(&format!("{METHOD}?{query}")).await
}

/// The body of a call, which succeeds.
async fn body(world: &World, query: &str) -> Value {
    let answer = call(world, query).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.body
}

/// An account that can call the server.
fn person(world: &World, did: &str) -> Person {
    world.plc.person(did, Algorithm::Es256k)
}

/// The body of a call by an account.
async fn body_for(world: &World, person: &Person, query: &str) -> Value {
    let token = format!("Bearer {}", person.token(&world.server.did(), json!({ "lxm": METHOD })));
    let headers = [("x-client-key", world.server.client_key.as_str()), ("authorization", &token)];
    let answer = world.server.request(Method::GET, &format!("/xrpc/{METHOD}?{query}"), &headers, None).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.body
}

/// A field of each row of a feed.
fn column(body: &Value, name: &str) -> Vec<Value> {
    body["feed"].as_array().unwrap().iter().map(|row| row[name].clone()).collect()
}

/// A view of posts whose rows have only their record keys.
fn keys_of(mut more: Value) -> Value {
    more["view"] = 1.into();
    more["output"] = json!({ "feed": [{ "key": "@rkey" }], "cursor": "@cursor" });
    if more["from"].is_null() {
        more["from"] = POSTS.into();
    }
    more
}
