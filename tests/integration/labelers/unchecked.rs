//! Labels whose signature can't be checked, or is wrong although the labeler's key is known.

use belvedere_standins::labeler::LabelFault;

use super::*;

crate::in_both_worlds!(
    a_label_that_can_not_be_checked_waits_for_the_directory,
    labels_with_wrong_signatures_hold_up_no_others
);

async fn a_label_that_can_not_be_checked_waits_for_the_directory(mut world: World) {
    world = world.with_notes().await;
    let uri = world.note(ALICE, "a", json!({})).await;
    let speaker = Speaker::followed(&world).await;
    speaker.say(&world, &[Label::new(&uri, "old", EARLY)]).await;
    // The key changes while the directory is down.
    let new = PrivateKey::generate(Algorithm::Es256, &Random::system());
    let public = new.public();
    speaker.labeler.sign_with(move |bytes| new.sign(bytes).to_vec());
    world.plc.set_down(true);
    speaker.labeler.send(&[Label::new(&uri, "new", EARLY)]);
    world.server.eventually("it is tried again", async |_| speaker.labeler.cursors().len() >= 3).await;
    assert!(speaker.labeler.cursors()[1..].iter().all(|cursor| *cursor == Some(2)), "from the same cursor");
    let row = shown(&world.server).await;
    assert_eq!(row["cursor"], 2, "{row}");
    assert!(row["last_error"].as_str().unwrap().contains("can't be checked"), "{row}");
    assert!(events(&world, "labeler.labels_refused").await.is_empty());
    assert_eq!(on(&world, &uri).await, theirs(&["old"]));

    world.plc.labeler(LABELER, &speaker.labeler.url(), &public);
    world.plc.set_down(false);
    // Forgets the failure, which is not repeated for half a minute.
    world.push(|at, _| Frame::identity(at, LABELER, "labeler.test"));
    wait_for_cursor(&world.server, 3).await;
    assert_eq!(on(&world, &uri).await, theirs(&["new", "old"]));
    assert!(events(&world, "labeler.labels_refused").await.is_empty());
}

async fn labels_with_wrong_signatures_hold_up_no_others(mut world: World) {
    world = world.with_notes().await;
    let uri = world.note(ALICE, "a", json!({})).await;
    let speaker = Speaker::start(Algorithm::Es256k).await;
    let values: Vec<String> = (0..300).map(|n| format!("forged-{n}")).collect();
    let forged: Vec<Label<'_>> = values.iter().map(|val| Label::new(&uri, val, EARLY)).collect();
    speaker.labeler.set_fault(Some(LabelFault::ForgesSignatures));
    speaker.labeler.send(&forged);
    speaker.labeler.set_fault(None);
    speaker.labeler.send(&[Label::new(&uri, "good", EARLY)]);
    speaker.publish(&world);
    follow(&world.server).await;
    wait_for_cursor(&world.server, 2).await;
    assert_eq!(on(&world, &uri).await, theirs(&["good"]));
    assert_eq!(speaker.labeler.connections(), 1);
    let refused = events(&world, "labeler.labels_refused").await;
    assert_eq!((refused.len(), &refused[0]["detail"]["kind"]), (1, &json!("signature")));
}
