//! A host that hangs while it follows the stream is replaced, and writes nothing of the stream when it goes on.

use crate::fixtures::NOTES;

use super::stream::{STANDBY, TAKEN_OVER, start, stream_of};
use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_takes_over_from_one_that_hangs() {
    let hosts = start().await;
    let trigger = format!("record.index:{NOTES}");
    hosts.a.bind_to(&trigger, "function handle() return record end").await;
    let mut written = 0;
    for round in 0..2 {
        let (hung, other) = if round == 0 { (&hosts.a, &hosts.b) } else { (&hosts.b, &hosts.a) };
        hosts.write(written, 400);
        written += 400;
        // Hangs in the middle of a burst, perhaps of a commit.
        let enough = u64::try_from(written).unwrap() - 300;
        other.eventually("part of the burst", async |host| host.records().await >= enough).await;
        let follows = hosts.follows_notes();
        hung.signal("STOP");
        hosts.write(written, 50);
        written += 50;
        soon("another follows", TAKEN_OVER, async || hosts.follows_notes() > follows).await;
        let all = u64::try_from(written).unwrap();
        other.eventually("everything", async |host| host.records().await >= all).await;
        assert_eq!(stream_of(other).await, json!({ "ok": true }));

        let follows = hosts.follows_notes();
        hung.signal("CONT");
        soon("it notices", TAKEN_OVER, async || stream_of(hung).await["reason"] == STANDBY).await;
        hosts.write(written, 50);
        written += 50;
        let all = u64::try_from(written).unwrap();
        hung.eventually("it reads what the other indexed", async |host| host.records().await >= all).await;
        assert_eq!((other.records().await, hosts.follows_notes()), (all, follows), "nothing twice");
        assert_eq!(stream_of(other).await, json!({ "ok": true }));
    }
}
