//! `/admin/accounts`

use belvedere_standins::jetstream::{Frame, Place};
use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, BOB, World};
use crate::support::instance::{Answer, OPERATOR, record_lexicon};

const PROFILE: &str = "com.example.profile";
const CAROL: &str = "did:plc:carolcarolcarolcarolcaro";

crate::in_both_worlds!(
    accounts_have_the_names_that_the_instance_knows,
    an_admin_user_has_a_handle_without_a_record,
    bad_requests_for_accounts_are_refused
);

/// A name that is read from right to left, and markup.
const NAME: &str = "\u{202e}<img src=x onerror=alert(1)>\0";

async fn accounts(world: &World, dids: &[&str]) -> Answer {
    let query: Vec<String> = dids.iter().map(|did| format!("did={}", did.replace(':', "%3A"))).collect();
    world.server.admin(Method::GET, &format!("/admin/accounts?{}", query.join("&")), None).await
}

fn with_handle(world: &World, did: &str, handle: &str) {
    world.plc.host(did, "https://pds.example");
    world.plc.also_known_as(did, &json!([format!("at://{handle}")]));
    world.server.dns.txt(&format!("_atproto.{handle}"), &format!("did={did}"));
}

async fn accounts_have_the_names_that_the_instance_knows(mut world: World) {
    with_handle(&world, ALICE, "alice.example");
    world.server.upload(record_lexicon(PROFILE), None).await;
    let named = json!({ "value": PROFILE });
    let path = "/admin/settings/profile_collection";
    assert!(world.server.admin(Method::PUT, path, Some(&named)).await.status.is_success());
    world.wait_for_stream_of(PROFILE).await;
    for (did, name) in [(ALICE, json!("  Alice  ")), (BOB, json!(NAME.repeat(9))), (CAROL, json!(7))] {
        let record = json!({ "$type": PROFILE, "displayName": name });
        world.push(|at, rev| {
            Frame::create(at, Place { did, collection: PROFILE, rkey: "self", rev }, &record)
        });
        world.wait_for(&format!("at://{did}/{PROFILE}/self"), true).await;
    }
    // The handle is looked up after the first page that shows the account.
    world
        .server
        .eventually("the handle is known", async |_| {
            accounts(&world, &[ALICE]).await.body["accounts"][0]["handle"] == "alice.example"
        })
        .await;
    let answer = accounts(&world, &[BOB, ALICE, "did:web:nobody.example", CAROL, ALICE]).await;
    let cut: String = NAME.repeat(9).chars().take(100).collect();
    let expected = json!({ "accounts": [
        { "did": BOB, "displayName": cut },
        { "did": ALICE, "handle": "alice.example", "displayName": "Alice" },
        { "did": "did:web:nobody.example" },
        { "did": CAROL },
    ] });
    assert_eq!((answer.status.as_u16(), &answer.body), (200, &expected), "{}", answer.text);
    assert_eq!(
        world.server.dns.queries("nobody.example"),
        0,
        "an account that anyone may invent is not looked up"
    );

    // A hidden account keeps its handle: a moderator needs to know whom a decision is about.
    let decision = json!({ "subject": ALICE, "action": "takedown", "reason": "spam" });
    assert_eq!(world.server.admin(Method::POST, "/admin/moderation", Some(&decision)).await.status, 201);
    let answer = accounts(&world, &[ALICE]).await;
    assert_eq!(answer.body["accounts"], json!([{ "did": ALICE, "handle": "alice.example" }]));
}

async fn an_admin_user_has_a_handle_without_a_record(world: World) {
    with_handle(&world, ALICE, "alice.example");
    let user = json!({ "did": ALICE });
    assert_eq!(world.server.admin(Method::POST, "/admin/users", Some(&user)).await.status, 201);
    with_handle(&world, BOB, "bob.example");
    let answer = accounts(&world, &[ALICE, BOB, OPERATOR]).await;
    let expected = json!([{ "did": ALICE, "handle": "alice.example" }, { "did": BOB }, { "did": OPERATOR }]);
    assert_eq!(answer.body["accounts"], expected, "{}", answer.text);
}

async fn bad_requests_for_accounts_are_refused(world: World) {
    let many: Vec<String> = (0..101).map(|n| format!("did:example:a{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for (dids, reason) in [
        (&[][..], "did is missing"),
        (&["alice.example"], "did: "),
        (&["did:plc:a%00"], "did: "),
        (&many, "at most 100 accounts"),
    ] {
        let answer = accounts(&world, dids).await;
        assert_eq!(answer.status, 400, "{dids:?} {}", answer.text);
        assert!(answer.error().contains(reason), "{}", answer.text);
    }
    assert_eq!(accounts(&world, &many[1..]).await.body["accounts"].as_array().map(Vec::len), Some(100));
    let answer = world.server.request(Method::GET, "/admin/accounts?did=did:plc:a", &[], None).await;
    assert_eq!((answer.status.as_u16(), &answer.body["accounts"]), (401, &Value::Null));
}
