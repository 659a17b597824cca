//! Dead letters of label scripts.

use super::*;

crate::in_both_worlds!(the_letters_of_a_label_script_are_bounded);

async fn the_letters_of_a_label_script_are_bounded(mut world: World) {
    world = world.with_notes().await;
    world.server.bind_to("labeler.apply:_actor", "function handle() error('never') end").await;
    let speaker = Speaker::followed(&world).await;
    let values: Vec<String> = (0..1_010).map(|n| format!("label-{n}")).collect();
    let labels: Vec<Label<'_>> = values.iter().map(|val| Label::new(ALICE, val, EARLY)).collect();
    speaker.say(&world, &labels).await;
    let count = world.server.admin(Method::GET, "/admin/dead-letters/count", None).await;
    assert_eq!(count.body["count"], 1_000, "{}", count.text);
    let events = world
        .server
        .admin(Method::GET, "/admin/events?event_type=script.dead_lettered&limit=100", None)
        .await;
    let events = events.body["events"].as_array().unwrap().len();
    assert!((20..60).contains(&events), "{events} reports, and one in ten seconds after the first 20");
    world
        .server
        .bind(LIST, "function handle() return db.raw('SELECT count(*) AS n FROM labels')[1] end")
        .await;
    assert_eq!(world.server.xrpc(LIST).await.body["n"], 1_011, "the labels are stored");
}
