//! The choice between two labels: dates that labelers get wrong, and labels for one version of a record.

use belvedere_standins::labeler::LabelFault;

use super::*;

crate::in_both_worlds!(
    a_label_of_the_future_can_be_withdrawn,
    a_label_may_expire_at_the_end_of_time,
    a_version_is_labeled_apart_from_its_record
);

async fn a_label_of_the_future_can_be_withdrawn(mut world: World) {
    world = world.with_notes().await;
    let uri = world.note(ALICE, "a", json!({})).await;
    let speaker = Speaker::followed(&world).await;
    speaker.labeler.set_fault(Some(LabelFault::DatesAhead));
    speaker.say(&world, &[Label::new(&uri, "spam", EARLY)]).await;
    assert_eq!(on(&world, &uri).await, theirs(&["spam"]));
    speaker.labeler.set_fault(None);
    speaker.say(&world, &[Label::new(&uri, "spam", LATER).negated()]).await;
    assert!(on(&world, &uri).await.is_empty());
    speaker.say(&world, &[Label::new(&uri, "spam", EARLY)]).await;
    assert!(on(&world, &uri).await.is_empty(), "an older one, late");
}

async fn a_label_may_expire_at_the_end_of_time(mut world: World) {
    world = world.with_notes().await;
    let uri = world.note(ALICE, "a", json!({})).await;
    let speaker = Speaker::followed(&world).await;
    speaker.labeler.set_fault(Some(LabelFault::ExpiresNever));
    speaker.say(&world, &[Label::new(&uri, "lasting", EARLY)]).await;
    assert_eq!(on(&world, &uri).await, theirs(&["lasting"]));
    assert!(events(&world, "labeler.labels_refused").await.is_empty());
    world
        .server
        .bind(
            LIST,
            "function handle() return { l = db.raw(\"SELECT exp FROM labels WHERE val = 'lasting'\") } end",
        )
        .await;
    assert_eq!(world.server.xrpc(LIST).await.body["l"][0]["exp"], "9999-12-30T22:00:00.999999Z");
    // A script names the same end.
    world
        .server
        .bind_to(
            &format!("labeler.apply:{NOTES}"),
            "function handle() return { exp = '9999-12-31T23:59:59Z' } end",
        )
        .await;
    speaker.labeler.set_fault(None);
    speaker.say(&world, &[Label { exp: Some(LATER), ..Label::new(&uri, "extended", EARLY) }]).await;
    assert_eq!(on(&world, &uri).await, theirs(&["extended", "lasting"]));
}

async fn a_version_is_labeled_apart_from_its_record(mut world: World) {
    world = world.with_notes().await;
    let uri = world.note(ALICE, "a", json!({ "text": "first" })).await;
    let page = world.server.admin(Method::GET, &format!("/admin/records?collection={NOTES}"), None).await;
    let cid = page.body["records"][0]["cid"].as_str().unwrap().to_owned();
    let speaker = Speaker::followed(&world).await;
    let record = |cts| Label::new(&uri, "spam", cts);
    let version = |cts| Label { cid: Some(&cid), ..record(cts) };
    speaker.say(&world, &[record(EARLY), version(LATER)]).await;
    assert_eq!(on(&world, &uri).await, theirs(&["spam"]), "shown once");
    speaker.say(&world, &[version("2024-05-01T12:00:02Z").negated()]).await;
    assert_eq!(on(&world, &uri).await, theirs(&["spam"]), "the record's stays");
    speaker.say(&world, &[version("2024-05-01T12:00:03Z"), record("2024-05-01T12:00:04Z").negated()]).await;
    assert_eq!(on(&world, &uri).await, theirs(&["spam"]), "the version's stays");
    let path = format!("/admin/records?collection={NOTES}&label=spam");
    let listed = world.server.admin(Method::GET, &path, None).await.body;
    assert_eq!(listed["records"][0]["uri"], uri, "{listed}");
    speaker.say(&world, &[version("2024-05-01T12:00:05Z").negated()]).await;
    assert!(on(&world, &uri).await.is_empty());
}
