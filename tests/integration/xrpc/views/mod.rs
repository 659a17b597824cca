//! Views: query methods that a document answers.
//!
//! The acceptance cases of views, and where they are tested:
//!
//! | Case | Test |
//! |---|---|
//! | 1 statuses with their authors | `joins::a_feed_has_authors_counts_and_the_last_replies` |
//! | 2 one value, three values; 3 roots, replies; 4 a word and a date; 7 two dates | `lists::conditions_are_parameters_that_may_be_absent` |
//! | 5 two orders | `lists::case_05_two_fields_in_opposite_directions` |
//! | 6 to the end and back | `lists::case_06_to_the_end_and_back` |
//! | 8 a gallery | `joins::a_gallery_has_its_photos_in_their_order` |
//! | 9 favourites of mixed types | `joins::references_are_followed_to_records_of_any_collection` |
//! | 10 a feed with counts and comments | `joins::a_feed_has_authors_counts_and_the_last_replies` |
//! | 11 records by handle; 13 own records | `lists::rows_are_of_an_account_or_of_many` |
//! | 12 a profile with its records | `joins::one_record_has_lists_of_its_account` |
//! | 14 the viewer's own likes and follows | `joins::the_viewer_sees_their_own_records` |
//! | 15 to 17 top artists, top tracks, plays per month | `groups::case_15_…` to `groups::case_17_…` |
//! | 18 create, replace, delete; 19 avatar and banner | `writes::case_18_…`, `writes::case_19_…` |
//! | 20 live statuses | not a view |
//! | 21 notifications; 23 preferences; 24 reports; 25 agents | `apps::case_21_…` to `apps::case_25_…` |
//! | 22 a taken-down record | `hiding::case_22_a_taken_down_record_vanishes` |

mod apps;
mod groups;
mod hiding;
mod hostile;
mod joins;
mod lists;
mod stored;
mod trees;
mod writes;

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
const PICTURE: &str = "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku";

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
    let indexed = async |server: &Instance| server.records().await == wanted;
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
