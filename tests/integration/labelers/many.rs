//! Many labels: none is lost by a crash, and they delay no records.

use super::*;

/// Labels of the test that kills the server.
const COUNT: usize = 3_000;

crate::in_both_worlds!(a_crash_loses_no_label, a_long_history_does_not_delay_records);

async fn a_crash_loses_no_label(mut world: World) {
    world = world.with_notes().await;
    let speaker = Speaker::followed(&world).await;
    let values: Vec<String> = (0..COUNT).map(|n| format!("label-{n}")).collect();
    for value in &values {
        speaker.labeler.send(&[Label::new("did:plc:somebody", value, EARLY)]);
    }
    wait_for_cursor(&world.server, 1).await;
    for _ in 0..3 {
        world.server.kill();
        world.server.start_again().await;
    }
    wait_for_cursor(&world.server, COUNT as i64).await;
    world
        .server
        .bind(LIST, "function handle() return db.raw('SELECT count(*) AS n FROM labels')[1] end")
        .await;
    assert_eq!(world.server.xrpc(LIST).await.body["n"], json!(COUNT));
}

async fn a_long_history_does_not_delay_records(mut world: World) {
    world = world.with_notes().await;
    let speaker = Speaker::start(Algorithm::Es256k).await;
    let values: Vec<String> = (0..200).map(|n| format!("label-{n}")).collect();
    for message in 0..100 {
        let subject = format!("did:plc:subject{message}");
        let labels: Vec<Label<'_>> = values.iter().map(|val| Label::new(&subject, val, EARLY)).collect();
        speaker.labeler.send(&labels);
    }
    speaker.publish(&world);
    follow(&world.server).await;
    world.note(ALICE, "a", json!({})).await;
    let cursor = shown(&world.server).await["cursor"].as_i64();
    assert!(cursor < Some(100), "the note was indexed only after all labels");
    wait_for_cursor(&world.server, 100).await;
    world
        .server
        .bind(LIST, "function handle() return db.raw('SELECT count(*) AS n FROM labels')[1] end")
        .await;
    assert_eq!(world.server.xrpc(LIST).await.body["n"], 20_000);
}
