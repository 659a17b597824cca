//! Changes on the network, as the stream and DNS tell of them.

use http::Method;
use serde_json::{Value, json};

use super::{LIST, NOTE, OTHER, PATH, PUBLISHER, Publisher, add, announce, events, names, publisher, stored};
use crate::fixtures::World;
use crate::support::instance::{query_lexicon, record_lexicon};

/// The record lexicon of notes with another property.
fn revised() -> Value {
    let mut lexicon = record_lexicon(NOTE);
    lexicon["defs"]["main"]["record"]["properties"]["more"] = json!({ "type": "string" });
    lexicon
}

/// The record lexicon of notes, in which a text is now required.
fn breaking() -> Value {
    let mut lexicon = record_lexicon(NOTE);
    lexicon["defs"]["main"]["record"]["required"] = json!(["text"]);
    lexicon
}

async fn added(world: &World, publisher: &Publisher) {
    publisher.publish(&record_lexicon(NOTE));
    let added = add(world, json!({ "nsid": NOTE })).await;
    assert_eq!(added.status, 201, "{}", added.text);
    world.wait_for_stream_of(NOTE).await;
}

/// Waits until a field of the stored lexicon has a value.
async fn wait_for(world: &World, nsid: &str, field: &str, value: Value) {
    let what = format!("{field} of {nsid} is {value}");
    world.server.eventually(&what, async |_| stored(world, nsid).await.body[field] == value).await;
}

/// Waits for the only event of a type. Returns its details.
async fn event(world: &World, kind: &str) -> Value {
    events(world, kind, 1).await["detail"].clone()
}

crate::in_both_worlds!(
    a_new_version_is_taken_and_the_same_one_changes_no_revision,
    lexicons_are_followed_without_any_collection,
    only_the_publisher_causes_a_refresh,
    a_document_that_breaks_or_is_none_leaves_the_last_one,
    what_a_change_removed_does_not_come_back_with_another_type,
    a_deletion_is_followed_once_the_publishers_pds_confirms_it,
    a_lexicon_that_is_missing_at_the_start_stays,
    another_publisher_in_dns_takes_over,
    an_upload_ends_the_following
);

async fn a_new_version_is_taken_and_the_same_one_changes_no_revision(mut world: World) {
    let publisher = publisher(&world).await;
    added(&world, &publisher).await;
    let first = stored(&world, NOTE).await.body;
    announce(&mut world, PUBLISHER, NOTE, Some(&record_lexicon(NOTE)));
    world
        .server
        .eventually("it was fetched", async |_| {
            stored(&world, NOTE).await.body["last_fetched_at"] != first["last_fetched_at"]
        })
        .await;
    let same = stored(&world, NOTE).await.body;
    assert_eq!((&same["revision"], &same["updated_at"]), (&json!(1), &first["updated_at"]));

    publisher.publish(&revised());
    announce(&mut world, PUBLISHER, NOTE, Some(&revised()));
    wait_for(&world, NOTE, "revision", json!(2)).await;
    let second = stored(&world, NOTE).await.body;
    assert_eq!(second["lexicon_json"]["defs"], revised()["defs"]);
    assert_eq!((&second["source"], &second["created_at"]), (&json!("network"), &first["created_at"]));
    assert_eq!(event(&world, "updated").await, json!({ "authority_did": PUBLISHER, "revision": 2 }));
}

async fn lexicons_are_followed_without_any_collection(mut world: World) {
    let publisher = publisher(&world).await;
    publisher.publish(&query_lexicon(LIST));
    assert_eq!(add(&world, json!({ "nsid": LIST })).await.status, 201);
    world.wait_for_stream_of("com.atproto.lexicon.schema").await;
    let mut described = query_lexicon(LIST);
    described["description"] = "Lists things.".into();
    publisher.publish(&described);
    announce(&mut world, PUBLISHER, LIST, Some(&described));
    wait_for(&world, LIST, "revision", json!(2)).await;
}

async fn only_the_publisher_causes_a_refresh(mut world: World) {
    let publisher = publisher(&world).await;
    added(&world, &publisher).await;
    publisher.publish(&query_lexicon(LIST));
    assert_eq!(add(&world, json!({ "nsid": LIST })).await.status, 201);
    publisher.publish(&revised());
    announce(&mut world, OTHER, NOTE, Some(&revised()));
    announce(&mut world, OTHER, NOTE, None);
    let mut described = query_lexicon(LIST);
    described["description"] = "Lists things.".into();
    publisher.publish(&described);
    announce(&mut world, PUBLISHER, LIST, Some(&described));
    wait_for(&world, LIST, "revision", json!(2)).await;
    assert_eq!(stored(&world, NOTE).await.body["revision"], 1);
}

async fn a_document_that_breaks_or_is_none_leaves_the_last_one(mut world: World) {
    let publisher = publisher(&world).await;
    added(&world, &publisher).await;
    publisher.publish(&breaking());
    announce(&mut world, PUBLISHER, NOTE, Some(&breaking()));
    let refused = event(&world, "change_refused").await;
    assert_eq!(refused["reason"], "defs.main.record.text becomes required");
    publisher.publish_as(NOTE, &json!({ "lexicon": 1, "id": NOTE, "defs": { "main": 5 } }));
    announce(&mut world, PUBLISHER, NOTE, Some(&json!({})));
    let failed = event(&world, "refresh_failed").await;
    assert!(failed["reason"].as_str().unwrap().contains("defs.main"), "{failed}");
    let kept = stored(&world, NOTE).await.body;
    assert_eq!(
        (&kept["revision"], &kept["lexicon_json"]["defs"]),
        (&json!(1), &record_lexicon(NOTE)["defs"])
    );
    // An operator takes it all the same.
    publisher.publish(&breaking());
    assert_eq!(add(&world, json!({ "nsid": NOTE })).await.body["revision"], 2);
    assert_eq!(stored(&world, NOTE).await.body["lexicon_json"]["defs"], breaking()["defs"]);
}

async fn what_a_change_removed_does_not_come_back_with_another_type(mut world: World) {
    let publisher = publisher(&world).await;
    added(&world, &publisher).await;
    let mut without = record_lexicon(NOTE);
    without["defs"]["main"]["record"]["properties"].as_object_mut().unwrap().remove("text");
    publisher.publish(&without);
    announce(&mut world, PUBLISHER, NOTE, Some(&without));
    wait_for(&world, NOTE, "revision", json!(2)).await;
    let mut other = record_lexicon(NOTE);
    other["defs"]["main"]["record"]["properties"]["text"] = json!({ "type": "integer" });
    publisher.publish(&other);
    announce(&mut world, PUBLISHER, NOTE, Some(&other));
    let refused = event(&world, "change_refused").await;
    let reason = "defs.main.record.text.type changes from string to integer (since revision 1)";
    assert_eq!(refused["reason"], reason);
    assert_eq!(stored(&world, NOTE).await.body["revision"], 2);
    // Later documents are compared with the one that an operator has taken all the same.
    assert_eq!(add(&world, json!({ "nsid": NOTE })).await.body["revision"], 3);
    other["description"] = "Notes.".into();
    publisher.publish(&other);
    announce(&mut world, PUBLISHER, NOTE, Some(&other));
    wait_for(&world, NOTE, "revision", json!(4)).await;
}

async fn a_deletion_is_followed_once_the_publishers_pds_confirms_it(mut world: World) {
    let publisher = publisher(&world).await;
    added(&world, &publisher).await;
    world.push(|at, rev| {
        let place = belvedere_standins::jetstream::Place { did: OTHER, collection: NOTE, rkey: "a", rev };
        belvedere_standins::jetstream::Frame::create(at, place, &json!({ "$type": NOTE }))
    });
    world.server.eventually("the record is indexed", async |server| server.records().await == 1).await;
    let first = stored(&world, NOTE).await.body;
    // A deletion that the PDS does not confirm.
    announce(&mut world, PUBLISHER, NOTE, None);
    world
        .server
        .eventually("it was fetched", async |_| {
            stored(&world, NOTE).await.body["last_fetched_at"] != first["last_fetched_at"]
        })
        .await;
    publisher.unpublish(NOTE);
    announce(&mut world, PUBLISHER, NOTE, None);
    world.server.eventually("it is removed", async |_| stored(&world, NOTE).await.status == 404).await;
    assert_eq!(events(&world, "removed", 1).await["actor_did"], json!(null));
    assert_eq!(world.server.records().await, 1, "its records stay");
}

async fn a_lexicon_that_is_missing_at_the_start_stays(mut world: World) {
    let publisher = publisher(&world).await;
    added(&world, &publisher).await;
    world.server.stop();
    publisher.unpublish(NOTE);
    world.server.start_again().await;
    let failed = event(&world, "refresh_failed").await;
    assert!(failed["reason"].as_str().unwrap().contains("publishes no lexicon"), "{failed}");
    assert_eq!(stored(&world, NOTE).await.body["revision"], 1);
}

async fn another_publisher_in_dns_takes_over(mut world: World) {
    let publisher = publisher(&world).await;
    added(&world, &publisher).await;
    let other = Publisher::start(&world, OTHER).await;
    other.publish(&revised());
    world.server.stop();
    names(&world, OTHER);
    world.server.start_again().await;
    wait_for(&world, NOTE, "authority_did", json!(OTHER)).await;
    assert_eq!(event(&world, "authority_changed").await, json!({ "from": PUBLISHER, "to": OTHER }));
    assert_eq!(stored(&world, NOTE).await.body["revision"], 2);

    // DNS names none at the next start: the last one stays.
    world.server.stop();
    world.server.dns.records("_lexicon.example.net", &[]);
    world.server.start_again().await;
    let failed = event(&world, "refresh_failed").await;
    assert_eq!(failed["reason"], "example.net names no authority");
    assert_eq!(stored(&world, NOTE).await.body["authority_did"], OTHER);
}

async fn an_upload_ends_the_following(mut world: World) {
    let publisher = publisher(&world).await;
    added(&world, &publisher).await;
    publisher.publish(&query_lexicon(LIST));
    assert_eq!(add(&world, json!({ "nsid": LIST })).await.status, 201);
    world.server.upload(record_lexicon(NOTE), None).await;
    let one = stored(&world, NOTE).await.body;
    assert_eq!(
        (&one["source"], &one["authority_did"], &one["last_fetched_at"]),
        (&json!("manual"), &json!(null), &json!(null))
    );
    let listed = world.server.admin(Method::GET, PATH, None).await.body;
    assert_eq!(listed.as_array().unwrap().len(), 1);
    publisher.publish(&revised());
    announce(&mut world, PUBLISHER, NOTE, Some(&revised()));
    publisher.unpublish(LIST);
    announce(&mut world, PUBLISHER, LIST, None);
    world.server.eventually("the other is removed", async |_| stored(&world, LIST).await.status == 404).await;
    assert_eq!(stored(&world, NOTE).await.body["revision"], 2);
}
