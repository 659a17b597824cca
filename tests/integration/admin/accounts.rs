//! `/admin/accounts`

use belvedere_protocol::atproto::Cid;
use belvedere_standins::jetstream::{Frame, Place};
use belvedere_standins::repos::{Fault, Site};
use http::Method;
use serde_json::{Value, json};
use shrike::cbor::Codec;

use crate::fixtures::{ALICE, BOB, World};
use crate::support::instance::{Answer, Instance, OPERATOR, query_lexicon, record_lexicon};

const PROFILE: &str = "com.example.profile";
const PROFILES: &str = "com.example.listProfiles";
const CAROL: &str = "did:plc:carolcarolcarolcarolcaro";

crate::in_both_worlds!(
    accounts_have_the_names_that_the_instance_knows,
    an_admin_user_has_a_handle_without_a_record,
    pictures_come_from_the_pds_and_are_images,
    bad_requests_for_accounts_are_refused
);

/// A name that is read from right to left, and markup.
const NAME: &str = "\u{202e}<img src=x onerror=alert(1)>";

async fn accounts(world: &World, dids: &[&str]) -> Answer {
    let query: Vec<String> = dids.iter().map(|did| format!("did={}", did.replace(':', "%3A"))).collect();
    world.server.admin(Method::GET, &format!("/admin/accounts?{}", query.join("&")), None).await
}

fn with_handle(world: &World, did: &str, handle: &str) {
    world.plc.host(did, "https://pds.example");
    world.plc.also_known_as(did, &json!([format!("at://{handle}")]));
    world.server.dns.txt(&format!("_atproto.{handle}"), &format!("did={did}"));
}

/// Makes `com.example.profile` the collection of profiles.
async fn with_profiles(world: &World) {
    world.server.upload(record_lexicon(PROFILE), None).await;
    world.server.upload(query_lexicon(PROFILES), Some(PROFILE)).await;
    let named = json!({ "value": PROFILE });
    let path = "/admin/settings/profile_collection";
    assert!(world.server.admin(Method::PUT, path, Some(&named)).await.status.is_success());
    world.wait_for_stream_of(PROFILE).await;
}

async fn profile(world: &mut World, did: &str, mut record: Value) {
    record["$type"] = PROFILE.into();
    world.push(|at, rev| Frame::create(at, Place { did, collection: PROFILE, rkey: "self", rev }, &record));
    let path = format!("{PROFILES}?uri=at://{did}/{PROFILE}/self");
    let is_there = async |server: &Instance| server.xrpc(&path).await.status == 200;
    world.server.eventually("the profile is indexed", is_there).await;
}

async fn accounts_have_the_names_that_the_instance_knows(mut world: World) {
    with_handle(&world, ALICE, "alice.example");
    with_profiles(&world).await;
    for (did, name) in [(ALICE, json!("  Alice  ")), (BOB, json!(NAME.repeat(9))), (CAROL, json!(7))] {
        profile(&mut world, did, json!({ "displayName": name })).await;
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

async fn pictures_come_from_the_pds_and_are_images(mut world: World) {
    with_profiles(&world).await;
    let bytes = [(ALICE, "GIF89a: a picture"), (BOB, "<svg onload='alert(1)'/>"), (CAROL, "GIF89a: another")];
    for (did, text) in bytes {
        world.plc.host(did, &world.network.pds_url(0));
        // The PDS has what it promises, but Carol's.
        let cid = Cid::compute(Codec::Raw, text.replace("another", "promised").as_bytes()).to_string();
        let blob = json!({ "$type": "blob", "ref": { "$link": cid }, "mimeType": "image/png", "size": 9 });
        profile(&mut world, did, json!({ "avatar": blob })).await;
    }
    world.network.faults(Site::Pds(0), move |query| {
        let of = |(did, _): &&(&str, &str)| query.did == *did;
        let (_, text) = bytes.iter().find(of).filter(|_| query.method.ends_with("getBlob"))?;
        Some(Fault::Status(200, vec![("content-type", "text/html".to_owned())], (*text).to_owned()))
    });
    let known = |answer: &Answer| answer.body["accounts"][0]["avatar"].is_string();
    for (did, _) in bytes {
        world.server.eventually("the PDS is known", async |_| known(&accounts(&world, &[did]).await)).await;
    }
    let picture = async |did: &str| {
        world.server.admin(Method::GET, &format!("/admin/accounts/{did}/picture"), None).await
    };
    let shown = picture(ALICE).await;
    assert_eq!((shown.status.as_u16(), &*shown.text), (200, "GIF89a: a picture"));
    for (name, value) in [
        ("content-type", "image/gif"),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "default-src 'none'; sandbox"),
        ("cache-control", "private, max-age=86400, immutable"),
    ] {
        assert_eq!(shown.headers[name], value);
    }
    for (did, status, reason) in [
        (BOB, 502, "not a PNG"),
        (CAROL, 502, "something else"),
        (OPERATOR, 404, "no picture"),
        ("alice.example", 400, "DID"),
    ] {
        let refused = picture(did).await;
        assert_eq!(refused.status, status, "{did} {}", refused.text);
        assert!(refused.error().contains(reason), "{}", refused.text);
    }
}

async fn bad_requests_for_accounts_are_refused(world: World) {
    let many: Vec<String> = (0..101).map(|n| format!("did:example:a{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for (dids, reason) in [
        (&[][..], "did is missing"),
        (&["alice.example"], "did: "),
        (&["did:plc:a%00"], "NUL"),
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
