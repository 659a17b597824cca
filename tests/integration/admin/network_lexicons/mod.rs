//! `/admin/network-lexicons`

mod follow;
mod publisher;

use belvedere_standins::jetstream::{Frame, Place};
use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, BOB, World};
use crate::support::instance::{Answer, query_lexicon, record_lexicon};
use publisher::Publisher;

const PUBLISHER: &str = "did:plc:publisherpublisherpubli";
const OTHER: &str = "did:plc:otherotherotherotherothe";
const NOTE: &str = "net.example.note";
const LIST: &str = "net.example.list";
const PATH: &str = "/admin/network-lexicons";
const SCHEMA: &str = "com.atproto.lexicon.schema";

/// A publisher of the lexicons below `net.example`.
async fn publisher(world: &World) -> Publisher {
    let publisher = Publisher::start(world, PUBLISHER).await;
    names(world, PUBLISHER);
    publisher
}

/// Makes the domain name this account.
fn names(world: &World, did: &str) {
    world.server.dns.txt("_lexicon.example.net", &format!("did={did}"));
}

async fn add(world: &World, body: Value) -> Answer {
    world.server.admin(Method::POST, PATH, Some(&body)).await
}

async fn stored(world: &World, nsid: &str) -> Answer {
    world.server.admin(Method::GET, &format!("/admin/lexicons/{nsid}"), None).await
}

/// Waits for `count` events of a type. Returns the oldest.
async fn events(world: &World, kind: &str, count: usize) -> Value {
    let path = format!("/admin/events?event_type=network_lexicon.{kind}");
    let mut found = Vec::new();
    world
        .server
        .eventually(&format!("{count} events {kind}"), async |server| {
            let answer = server.admin(Method::GET, &path, None).await;
            found = answer.body["events"].as_array().cloned().unwrap_or_default();
            found.len() >= count
        })
        .await;
    assert_eq!(found.len(), count, "{found:?}");
    found.pop().unwrap_or_default()
}

/// A commit of the stream that changes a published lexicon.
fn announce(world: &mut World, did: &str, nsid: &str, lexicon: Option<&Value>) {
    world.push(|at, rev| {
        let place = Place { did, collection: SCHEMA, rkey: nsid, rev };
        match lexicon {
            Some(lexicon) => Frame::update(at, place, lexicon),
            None => Frame::delete(at, place),
        }
    });
}

crate::in_both_worlds!(
    a_lexicon_is_previewed_added_listed_and_deleted,
    a_record_lexicon_takes_effect_on_the_stream_and_is_backfilled_if_asked,
    what_can_t_be_resolved_is_refused_with_the_reason,
    a_did_in_several_strings_and_a_did_web_are_found,
    a_list_ends_the_following_of_lexicons_that_it_changes
);

async fn a_lexicon_is_previewed_added_listed_and_deleted(world: World) {
    let (server, publisher) = (&world.server, publisher(&world).await);
    publisher.publish(&query_lexicon(LIST));
    let preview = server.admin(Method::GET, &format!("{PATH}/resolve/{LIST}"), None).await;
    assert_eq!(preview.status, 200, "{}", preview.text);
    let mut document = query_lexicon(LIST);
    document["$type"] = SCHEMA.into();
    assert_eq!(
        preview.body,
        json!({ "nsid": LIST, "authority_did": PUBLISHER, "type": "query", "lexicon_json": document })
    );
    assert_eq!(stored(&world, LIST).await.status, 404, "a preview stores nothing");

    let added = add(&world, json!({ "nsid": LIST, "target_collection": NOTE })).await;
    assert_eq!(added.status, 201, "{}", added.text);
    assert_eq!(
        (&added.body["nsid"], &added.body["authority_did"], &added.body["revision"]),
        (&json!(LIST), &json!(PUBLISHER), &json!(1))
    );
    assert!(added.body["warnings"][0].as_str().unwrap().contains("has no record lexicon"));
    let one = stored(&world, LIST).await.body;
    assert_eq!(
        (&one["source"], &one["authority_did"], &one["lexicon_type"]),
        (&json!("network"), &json!(PUBLISHER), &json!("query"))
    );
    assert_eq!(
        (&one["lexicon_json"], &one["backfill"], &one["token_cost"]),
        (&document, &json!(false), &json!(null))
    );
    assert!(one["last_fetched_at"].is_string());
    let all = server.admin(Method::GET, "/admin/lexicons", None).await.body;
    assert_eq!((&all[0]["source"], &all[0]["last_fetched_at"]), (&json!("network"), &one["last_fetched_at"]));

    server.upload(query_lexicon("net.example.manual"), None).await;
    let listed = server.admin(Method::GET, PATH, None).await.body;
    let item = &listed.as_array().unwrap()[0];
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(
        (&item["nsid"], &item["authority_did"], &item["target_collection"]),
        (&json!(LIST), &json!(PUBLISHER), &json!(NOTE))
    );
    assert!(item["last_fetched_at"].is_string() && item["created_at"].is_string());
    assert_eq!(server.xrpc(LIST).await.body, json!({ "records": [] }));

    let again = add(&world, json!({ "nsid": LIST })).await;
    assert_eq!((again.status.as_u16(), &again.body["revision"]), (201, &json!(2)));
    assert_eq!(server.admin(Method::DELETE, &format!("{PATH}/net.example.manual"), None).await.status, 404);
    assert_eq!(server.admin(Method::DELETE, &format!("{PATH}/{LIST}"), None).await.status, 204);
    assert_eq!(server.admin(Method::DELETE, &format!("{PATH}/{LIST}"), None).await.status, 404);
    assert_eq!(stored(&world, LIST).await.status, 404);
    assert_eq!(
        events(&world, "added", 2).await["detail"],
        json!({ "authority_did": PUBLISHER, "revision": 1 })
    );
    assert_eq!(events(&world, "removed", 1).await["subject"], LIST);
}

async fn a_record_lexicon_takes_effect_on_the_stream_and_is_backfilled_if_asked(mut world: World) {
    let publisher = publisher(&world).await;
    publisher.publish(&record_lexicon(NOTE));
    let added = add(&world, json!({ "nsid": NOTE })).await;
    assert_eq!(
        (added.status.as_u16(), &added.body["backfill_job_id"]),
        (201, &json!(null)),
        "{}",
        added.text
    );
    world.wait_for_stream_of(NOTE).await;
    world.push(|at, rev| {
        let place = Place { did: ALICE, collection: NOTE, rkey: "a", rev };
        Frame::create(at, place, &json!({ "$type": NOTE, "text": "hello" }))
    });
    world.server.eventually("the record is indexed", async |server| server.records().await == 1).await;

    let again = add(&world, json!({ "nsid": NOTE, "backfill": true })).await;
    let jobs = world.server.admin(Method::GET, "/admin/backfill/status", None).await.body;
    assert_eq!((&jobs[0]["id"], &jobs[0]["collection"]), (&again.body["backfill_job_id"], &json!(NOTE)));
    assert_eq!(stored(&world, NOTE).await.body["backfill"], true);
    // A caller who may not start backfills still adds the lexicon.
    let key = world.server.create_key(&["--did", BOB, "--permissions", "lexicons:create"]);
    let headers = [("authorization", format!("Bearer {key}"))];
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    let body = json!({ "nsid": NOTE, "backfill": true }).to_string();
    let added = world.server.request(Method::POST, PATH, &headers, Some(body)).await;
    assert_eq!(
        (added.status.as_u16(), &added.body["backfill_job_id"]),
        (201, &json!(null)),
        "{}",
        added.text
    );
}

async fn what_can_t_be_resolved_is_refused_with_the_reason(world: World) {
    let (server, publisher) = (&world.server, publisher(&world).await);
    let dns = &server.dns;
    let (one, two) = (format!("did={PUBLISHER}"), format!("did={OTHER}"));
    dns.records("_lexicon.two.example", &[&[one.as_str()], &[two.as_str()]]);
    dns.txt("_lexicon.nobody.example", "did=did:plc:nobodynobodynobodynobody");
    dns.txt("_lexicon.down.example", &format!("did={OTHER}"));
    world.plc.host(OTHER, "http://127.0.0.1:9");
    publisher.publish_as("net.example.renamed", &query_lexicon("net.example.other"));
    publisher.publish(&json!({ "lexicon": 2, "id": "net.example.later", "defs": {} }));
    publisher.publish_with_wrong_cid(&query_lexicon("net.example.forged"));
    publisher.fail("net.example.broken", 500);
    let mut large = query_lexicon("net.example.large");
    large["description"] = "x".repeat(300 << 10).into();
    publisher.publish(&large);
    for (nsid, status, reason) in [
        ("nonsense", 400, "not an NSID"),
        ("example.net", 400, "not an NSID"),
        ("example.nowhere.thing", 400, "nowhere.example names no authority"),
        ("example.two.thing", 400, "two.example names more than one DID"),
        ("example.nobody.thing", 400, "does not exist"),
        ("example.down.thing", 502, "the request to the PDS failed"),
        ("net.example.missing", 404, "publishes no lexicon net.example.missing"),
        ("net.example.renamed", 400, "its id is net.example.other"),
        ("net.example.later", 400, "lexicon: must be 1"),
        ("net.example.forged", 502, "does not match the CID"),
        ("net.example.broken", 502, "status 500"),
        ("net.example.large", 400, "larger than"),
    ] {
        let added = add(&world, json!({ "nsid": nsid })).await;
        assert_eq!(added.status, status, "{nsid}: {}", added.text);
        assert!(added.error().contains(reason), "{nsid}: {}", added.error());
        let preview = server.admin(Method::GET, &format!("{PATH}/resolve/{nsid}"), None).await;
        assert_eq!((preview.status, preview.text), (added.status, added.text));
    }
    assert_eq!(add(&world, json!({})).await.status, 400);
    publisher.publish(&record_lexicon(NOTE));
    let with_target = add(&world, json!({ "nsid": NOTE, "target_collection": NOTE })).await;
    assert!(with_target.status == 400 && with_target.error().contains("target_collection"));
    assert_eq!(server.admin(Method::GET, "/admin/lexicons", None).await.body, json!([]));
}

async fn a_did_in_several_strings_and_a_did_web_are_found(world: World) {
    let publisher = publisher(&world).await;
    publisher.publish(&query_lexicon(LIST));
    let (head, tail) = PUBLISHER.split_at(10);
    let strings: &[&str] = &["did=", head, tail];
    world.server.dns.records("_lexicon.example.net", &[&["v=spf1 -all"], strings]);
    assert_eq!(add(&world, json!({ "nsid": LIST })).await.body["authority_did"], PUBLISHER);

    let web = world.plc.web_person(belvedere_protocol::crypto::Algorithm::Es256k);
    let web_publisher = Publisher::start(&world, &web.did).await;
    // The document of the did:web is served under this path.
    world.plc.host(".well-known/did.json", &web_publisher.pds_url());
    web_publisher.publish(&query_lexicon(LIST));
    names(&world, &web.did);
    assert_eq!(add(&world, json!({ "nsid": LIST })).await.body["authority_did"], web.did);
}

async fn a_list_ends_the_following_of_lexicons_that_it_changes(world: World) {
    let publisher = publisher(&world).await;
    publisher.publish(&query_lexicon(LIST));
    assert_eq!(add(&world, json!({ "nsid": LIST })).await.status, 201);
    let upload = async |lexicon: &Value| {
        let body = json!({ "lexicons": [{ "lexicon_json": lexicon }] });
        world.server.admin(Method::POST, "/admin/lexicons", Some(&body)).await.body["lexicons"][0].clone()
    };
    let mut document = stored(&world, LIST).await.body["lexicon_json"].clone();
    let same = upload(&document).await;
    assert_eq!(
        (&same["revision"], &same["backfill_job_id"], &same["change"]),
        (&json!(1), &Value::Null, &json!("unchanged"))
    );
    assert_eq!(stored(&world, LIST).await.body["source"], "network");
    document["description"] = json!("another");
    assert_eq!(upload(&document).await["change"], "changed");
    let changed = stored(&world, LIST).await.body;
    assert_eq!((&changed["source"], &changed["authority_did"]), (&json!("manual"), &Value::Null));
}
