//! Kills the server with SIGKILL: no record is lost, the counts stay those of the records, and state survives the restart.

use crate::fixtures::World;
use serde_json::json;

use crate::fixtures::{ALICE, LIST, NOTES};

crate::in_both_worlds!(kills_lose_and_duplicate_nothing);

async fn kills_lose_and_duplicate_nothing(mut world: World) {
    world = world.with_notes().await;
    let mut written = 0;
    for round in 0..6 {
        for n in 0..40 {
            let record = json!({ "$type": NOTES, "text": format!("{round}.{n}") });
            world.push(|at, rev| {
                belvedere_standins::jetstream::Frame::create(
                    at,
                    belvedere_standins::jetstream::Place { did: ALICE, collection: NOTES, rkey: rev, rev },
                    &record,
                )
            });
            written += 1;
        }
        // Kills at a different point of each burst; how many records are indexed by then depends on the machine.
        let enough = written - 40 + round * 6;
        world.server.eventually("part of the burst", async |server| server.records().await >= enough).await;
        world.server.kill();
        assert_eq!(world.wrong_counts().await, [""; 0]);
        world.server.start_again().await;
    }
    world.server.eventually("everything", async |server| server.records().await >= written).await;
    assert_eq!(world.server.records().await, written, "nothing twice");
    assert_eq!(world.wrong_counts().await, [""; 0]);
    let page = world.server.xrpc(&format!("{LIST}?limit=100")).await;
    assert_eq!(page.body["records"].as_array().unwrap().len(), 100);
}
