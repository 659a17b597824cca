//! Tests of labelers that can't be followed.

use super::*;

crate::in_both_worlds!(what_can_not_be_followed_says_why, a_labeler_that_closes_at_once_is_no_hot_loop);

async fn what_can_not_be_followed_says_why(world: World) {
    let speaker = Speaker::start(Algorithm::Es256).await;
    // An account without a labeler: its PDS is not asked instead.
    world.plc.host(LABELER, &speaker.labeler.url());
    follow(&world.server).await;
    let failed = async |server: &Instance, part: &str| {
        shown(server).await["last_error"].as_str().is_some_and(|error| error.contains(part))
    };
    world.server.eventually("no service", async |s| failed(s, "no service #atproto_labeler").await).await;
    assert_eq!(speaker.labeler.connections(), 0);
    let ready = world.server.request(Method::GET, "/readyz", &[], None).await;
    assert_eq!((ready.status.as_u16(), &ready.body["checks"]["labelers"]["ok"]), (200, &json!(true)));
    let reason = ready.body["checks"]["labelers"]["reason"].as_str().unwrap();
    assert!(reason.starts_with("1 of 1 labelers are not connected"), "{reason}");
    let path = format!("/admin/labelers/{LABELER}");
    assert_eq!(world.server.admin(Method::DELETE, &path, None).await.status, 204);

    // An address that the server must not connect to, then one that closes at once.
    world.plc.labeler("did:plc:insideinsideinsideinside", "http://10.1.2.3", &speaker.public());
    let inside = json!({ "did": "did:plc:insideinsideinsideinside" });
    assert_eq!(world.server.admin(Method::POST, "/admin/labelers", Some(&inside)).await.status, 201);
    let refused = async |server: &Instance| {
        let list = server.admin(Method::GET, "/admin/labelers", None).await;
        list.body[0]["last_error"].as_str().is_some_and(|error| error.contains("refused to connect"))
    };
    world.server.eventually("refused", refused).await;
    let count = async || events(&world, "labeler.disconnected").await.len();
    world.server.eventually("an event for each series of attempts", async |_| count().await == 2).await;
}

async fn a_labeler_that_closes_at_once_is_no_hot_loop(world: World) {
    let speaker = Speaker::start(Algorithm::Es256).await;
    speaker.labeler.set_mode(Mode::CloseAfterUpgrade);
    speaker.publish(&world);
    follow(&world.server).await;
    world.server.eventually("three attempts", async |_| speaker.labeler.connections() >= 3).await;
    let events = events(&world, "labeler.connected").await;
    let at = |event: &Value| event["created_at"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let waited = at(&events[0]).duration_since(at(&events[1]));
    assert!(waited.as_secs_f64() >= 1.0, "{waited:?}");
    // As soon as it works, its labels arrive.
    speaker.labeler.set_mode(Mode::Serve);
    speaker.labeler.send(&[Label::new(ALICE, "spam", EARLY)]);
    wait_for_cursor(&world.server, 1).await;
}
