//! Gaps of the stream, and the catch-ups that close them.

use crate::store::Db;
use crate::store::backfill::{self, CATCH_UP, JobRow, QueuedCatchUp, queue_catch_up, settle_gaps};
use crate::store::gaps::{self, Gap, GapReason};
use crate::store::status::{Request, Stage};
use crate::store::testing::TestDb;
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Nsid;

use super::fixtures::*;

const START: Timestamp = Timestamp(1_000_000_000);
const MARGIN_SECONDS: i64 = 100;

fn gap(reason: GapReason, from: i64, to: i64) -> Gap {
    Gap { reason, from: START.plus_seconds(from), to: START.plus_seconds(to) }
}

/// Queues at `now`, at most one in ten seconds.
async fn queue(db: &Db, id: &str, now: i64) -> Option<QueuedCatchUp> {
    let now = START.plus_seconds(now);
    queue_catch_up(db, id, MARGIN_SECONDS, now.plus_seconds(-10), now).await.unwrap()
}

async fn end(db: &Db, id: &str, how: Request, error: Option<&str>) {
    let job = backfill::next(db).await.unwrap().unwrap();
    assert_eq!(job.id, id);
    if how == Request::Cancel {
        backfill::request(db, id, how).await.unwrap();
        backfill::settle(db, None, START).await.unwrap();
    } else {
        backfill::end(db, job.seq, how, error, START).await.unwrap();
    }
}

async fn job(db: &Db, id: &str) -> JobRow {
    backfill::get(db, id).await.unwrap().unwrap()
}

on_both!(
    gaps_of_one_reason_are_one_until_a_catch_up_begins,
    gaps_that_come_while_one_waits_are_added_to_it,
    only_a_complete_or_cancelled_catch_up_closes_its_gaps,
    the_accounts_of_the_index_are_added_once
);

async fn gaps_of_one_reason_are_one_until_a_catch_up_begins(db: TestDb) {
    assert!(!settle_gaps(&db).await.unwrap());
    assert_eq!(queue(&db, "none", 500).await, None);
    for (from, to) in [(300, 400), (200, 350), (300, 450), (220, 240)] {
        gaps::add(&db, &gap(GapReason::CursorTooOld, from, to), START).await.unwrap();
    }
    gaps::add(&db, &gap(GapReason::MessageSkipped, 410, 411), START).await.unwrap();
    let open = gaps::open(&db).await.unwrap();
    let shown: Vec<_> = open.iter().map(|gap| (gap.reason, gap.from, gap.to, gap.job.clone())).collect();
    let merged = (GapReason::CursorTooOld, START.plus_seconds(200), START.plus_seconds(450), None);
    let skipped = (GapReason::MessageSkipped, START.plus_seconds(410), START.plus_seconds(411), None);
    assert_eq!(shown, [merged, skipped]);
    assert!(settle_gaps(&db).await.unwrap());
    let queued = queue(&db, "a", 500).await.unwrap();
    let changed_since = START.plus_seconds(100);
    assert_eq!(queued, QueuedCatchUp { id: "a".to_owned(), changed_since, gaps: 2 });
    assert!(!settle_gaps(&db).await.unwrap());
    let active = backfill::next(&db).await.unwrap().unwrap();
    assert_eq!((active.kind.as_str(), active.changed_since), (CATCH_UP, Some(changed_since)));
}

async fn gaps_that_come_while_one_waits_are_added_to_it(db: TestDb) {
    gaps::add(&db, &gap(GapReason::CursorTooOld, 300, 400), START).await.unwrap();
    queue(&db, "a", 500).await.unwrap();
    // The same gap again, after a crash: it is within a known one.
    gaps::add(&db, &gap(GapReason::CursorTooOld, 300, 400), START).await.unwrap();
    assert!(!settle_gaps(&db).await.unwrap());
    gaps::add(&db, &gap(GapReason::CursorTooOld, 250, 460), START).await.unwrap();
    let queued = queue(&db, "b", 501).await.unwrap();
    let changed_since = START.plus_seconds(150);
    assert_eq!(queued, QueuedCatchUp { id: "a".to_owned(), changed_since, gaps: 1 });

    // Once it has begun, it can't take more, and the next one follows after a while.
    let seq = backfill::next(&db).await.unwrap().unwrap().seq;
    backfill::set_stage(&db, seq, Stage::DiscoveringRepos).await.unwrap();
    gaps::add(&db, &gap(GapReason::ServerRewound, 500, 510), START).await.unwrap();
    assert_eq!(queue(&db, "c", 600).await, None);
    end(&db, "a", Request::Complete, None).await;
    assert!(settle_gaps(&db).await.unwrap());
    assert_eq!(gaps::open(&db).await.unwrap().len(), 1, "those of the ended one are closed");
    assert_eq!(queue(&db, "c", 505).await, None, "too early");
    assert_eq!(queue(&db, "c", 600).await.unwrap().changed_since, START.plus_seconds(400));
    assert_eq!(job(&db, "c").await.kind, CATCH_UP);
}

async fn only_a_complete_or_cancelled_catch_up_closes_its_gaps(db: TestDb) {
    for (n, (how, error, is_closed)) in [
        (Request::Fail, Some("the relay does not answer"), false),
        (Request::Complete, Some("the relay did not list all"), false),
        (Request::Cancel, None, true),
        (Request::Complete, None, true),
    ]
    .into_iter()
    .enumerate()
    {
        let (id, at) = (format!("job{n}"), 1_000 * (n as i64 + 1));
        gaps::add(&db, &gap(GapReason::CursorTooOld, at, at + 1), START).await.unwrap();
        queue(&db, &id, at + 500).await.unwrap();
        end(&db, &id, how, error).await;
        assert_eq!(settle_gaps(&db).await.unwrap(), !is_closed, "{how:?} {error:?}");
        assert_eq!(gaps::open(&db).await.unwrap().is_empty(), is_closed);
    }
}

async fn the_accounts_of_the_index_are_added_once(db: TestDb) {
    for n in 0..5 {
        apply(&db, n, vec![put(&uri(n as u32, NOTE, "a"), 1, "{}")]).await;
    }
    gaps::add(&db, &gap(GapReason::CursorTooOld, 1, 2), START).await.unwrap();
    queue(&db, "a", 5).await.unwrap();
    let seq = backfill::next(&db).await.unwrap().unwrap().seq;
    let note = Nsid::try_from(NOTE).unwrap();
    let known = [uri(3, NOTE, "a").did.to_string()];
    backfill::add_repos(&db, seq, note.as_str(), &known, None).await.unwrap();
    let mut added = Vec::new();
    while let Some(dids) = backfill::add_indexed_repos(&db, seq, backfill::Indexed::Known, 2).await.unwrap() {
        added.extend(dids);
    }
    added.sort_unstable();
    assert_eq!(added, [0, 1, 2, 4].map(|n| uri(n, NOTE, "a").did.to_string()));
    assert_eq!(backfill::count(&db, seq).await.unwrap().total_repos, 5);
    let of_notes = backfill::accounts(&db, backfill::Indexed::With(&note), 0, 100).await.unwrap();
    assert_eq!(of_notes.len(), 5);
    let after = backfill::accounts(&db, backfill::Indexed::With(&note), of_notes[3].id, 100).await.unwrap();
    assert_eq!(after, of_notes[4..]);
    let likes = Nsid::try_from(LIKE).unwrap();
    assert_eq!(backfill::accounts(&db, backfill::Indexed::With(&likes), 0, 100).await.unwrap(), []);
}
