//! One host at a time follows the labelers; the others' requests reach it, and another one takes over.

use belvedere_protocol::crypto::Algorithm;
use belvedere_standins::labeler::Label;

use crate::labelers::{EARLY, LABELER, Speaker, follow, shown, wait_for_cursor};

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_host_follows_a_labeler_and_another_takes_over() {
    let mut hosts = Hosts::start().await;
    let speaker = Speaker::start(Algorithm::Es256k).await;
    hosts.plc.labeler(LABELER, &speaker.labeler.url(), &speaker.public());
    // The host that started first has the lease; a change on the other one reaches it at once.
    follow(&hosts.b).await;
    speaker.labeler.send(&[Label::new("did:plc:somebody", "first", EARLY)]);
    wait_for_cursor(&hosts.b, 1).await;
    assert_eq!(speaker.labeler.connections(), 1, "one host follows it");
    assert_eq!(shown(&hosts.b).await["connected"], true, "both hosts know");
    let standby = hosts.b.request(Method::GET, "/readyz", &[], None).await;
    assert_eq!(standby.body["checks"]["labelers"]["reason"], "another host follows the labelers");

    let path = format!("/admin/labelers/{LABELER}");
    done(&hosts.b, Method::PATCH, &path, &json!({ "status": "paused" })).await;
    assert_eq!(shown(&hosts.b).await["connected"], false);
    let ended = "/admin/events?event_type=labeler.disconnected";
    let has_ended = async || !get(&hosts.a, ended).await.body["events"].as_array().unwrap().is_empty();
    soon("paused", NOTIFIED_WITHIN, has_ended).await;
    done(&hosts.b, Method::PATCH, &path, &json!({ "status": "active" })).await;
    soon("active", NOTIFIED_WITHIN, async || shown(&hosts.b).await["connected"] == true).await;

    hosts.a.kill();
    speaker.labeler.send(&[Label::new("did:plc:somebody", "second", EARLY)]);
    wait_for_cursor(&hosts.b, 2).await;
    assert_eq!(speaker.labeler.cursors(), [Some(0), Some(1), Some(1)], "it continues at the cursor");
    assert_eq!(hosts.b.admin(Method::DELETE, &path, None).await.status, 204);
    assert!(shown(&hosts.b).await.is_null());
}
