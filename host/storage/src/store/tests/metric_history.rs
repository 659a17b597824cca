//! The history of metrics: hosts add to the same steps, wider steps, steps of three lengths, the sweep, the beginning.

use crate::store::metric_history::{self, Sample, StepRow};
use crate::store::metric_resolution::Resolution::{self, FiveMinutes, Hour, Minute};
use crate::store::request_latencies;
use crate::store::testing::TestDb;
use belvedere_base::clock::Timestamp;

const STEP: i64 = 300_000_000;

fn at(step: i64) -> Timestamp {
    Timestamp(step * STEP)
}

fn sample(count: i64, total: f64, max: f64) -> Sample {
    Sample { count, total, max, ..Sample::default() }
}

/// A sample whose calls are in one bucket.
fn calls(bucket: usize, count: i64, max: f64) -> Sample {
    let mut sample = sample(count, 0.0, max);
    sample.buckets[bucket] = count;
    sample
}

on_both!(
    hosts_add_to_the_same_steps,
    hosts_add_to_the_same_buckets,
    old_steps_are_removed_in_parts,
    samples_are_in_steps_of_all_lengths,
    the_history_begins_with_its_first_step
);

async fn hosts_add_to_the_same_steps(db: TestDb) {
    let one = [
        ("requests", at(10), "b".to_owned(), sample(2, 5.5, 4.0)),
        ("requests", at(10), "a".to_owned(), sample(1, 1.0, 1.0)),
        ("other", at(10), "a".to_owned(), sample(100, 0.0, 0.0)),
    ];
    let other = [
        ("requests", at(10), "b".to_owned(), sample(3, 1.0, 0.5)),
        ("requests", at(11), "b".to_owned(), sample(1, 9.0, 9.0)),
    ];
    metric_history::add(&db, &[]).await.unwrap();
    metric_history::add(&db, &one).await.unwrap();
    metric_history::add(&db, &other).await.unwrap();
    let row = |step: i64, label: &str, Sample { count, total, max, .. }| StepRow {
        at: at(step),
        label: label.to_owned(),
        count,
        total,
        max,
    };
    let all = (at(0), at(20));
    let found = metric_history::read(&db, FiveMinutes, "requests", None, all, STEP).await.unwrap();
    assert_eq!(
        found,
        [
            row(10, "a", sample(1, 1.0, 1.0)),
            row(10, "b", sample(5, 6.5, 4.0)),
            row(11, "b", sample(1, 9.0, 9.0)),
        ]
    );
    // A wider step begins at a multiple of its length.
    let wide = metric_history::read(&db, FiveMinutes, "requests", Some("b"), all, 2 * STEP).await.unwrap();
    assert_eq!(wide, [row(10, "b", sample(6, 15.5, 9.0))]);
    // The end is exclusive.
    let part =
        metric_history::read(&db, FiveMinutes, "requests", Some("b"), (at(10), at(11)), STEP).await.unwrap();
    assert_eq!(part.len(), 1);
}

async fn hosts_add_to_the_same_buckets(db: TestDb) {
    let one = [
        ("requests", at(10), "a".to_owned(), calls(3, 2, 1.5)),
        ("requests", at(10), "b".to_owned(), calls(0, 1, 0.1)),
    ];
    let other = [
        ("requests", at(10), "a".to_owned(), calls(14, 1, 9_000.0)),
        ("requests", at(11), "a".to_owned(), calls(3, 4, 1.2)),
    ];
    metric_history::add(&db, &one).await.unwrap();
    metric_history::add(&db, &other).await.unwrap();
    let read = async |label, step| {
        request_latencies::read(&db, FiveMinutes, "requests", label, (at(0), at(20)), step).await.unwrap()
    };
    let found = read(None, STEP).await;
    let row =
        |n: usize| (found[n].at, &*found[n].label, found[n].max, found[n].buckets[3], found[n].buckets[14]);
    assert_eq!(found.len(), 3);
    assert_eq!([row(0), row(1)], [(at(10), "a", 9_000.0, 2, 1), (at(10), "b", 0.1, 0, 0)]);
    let wide = read(Some("a"), 2 * STEP).await;
    assert_eq!((wide.len(), wide[0].buckets[3], wide[0].max), (1, 6, 9_000.0));
}

async fn old_steps_are_removed_in_parts(db: TestDb) {
    let samples: Vec<_> = (0..5).map(|n| ("requests", at(n), format!("m{n}"), calls(1, 1, 0.3))).collect();
    metric_history::add(&db, &samples).await.unwrap();
    assert_eq!(metric_history::delete_before(&db, FiveMinutes, at(3), 2).await.unwrap(), 4, "of each table");
    assert_eq!(metric_history::delete_before(&db, FiveMinutes, at(3), 2).await.unwrap(), 2);
    let latencies =
        request_latencies::read(&db, FiveMinutes, "requests", None, (at(0), at(9)), STEP).await.unwrap();
    assert_eq!(latencies.iter().map(|row| row.at).collect::<Vec<_>>(), [at(3), at(4)]);
    let left = metric_history::read(&db, FiveMinutes, "requests", None, (at(0), at(9)), STEP).await.unwrap();
    assert_eq!(left.iter().map(|row| row.at).collect::<Vec<_>>(), [at(3), at(4)]);
}

async fn samples_are_in_steps_of_all_lengths(db: TestDb) {
    let minute = |n: i64| Timestamp(n * 60_000_000);
    let samples: Vec<_> =
        [0, 1, 61].map(|n| ("requests", minute(n), "a".to_owned(), calls(2, 1, 0.9))).into();
    metric_history::add(&db, &samples).await.unwrap();
    metric_history::add(&db, &samples[..1]).await.unwrap();
    let all = (minute(0), minute(1_000));
    for (resolution, counts) in [(Minute, vec![2, 1, 1]), (FiveMinutes, vec![3, 1]), (Hour, vec![3, 1])] {
        let step = resolution.seconds() * 1_000_000;
        let rows = metric_history::read(&db, resolution, "requests", None, all, step).await.unwrap();
        assert_eq!(rows.iter().map(|row| row.count).collect::<Vec<_>>(), counts, "{resolution:?}");
        assert!(rows.iter().all(|row| row.at == resolution.step_of(row.at)));
        let latencies =
            request_latencies::read(&db, resolution, "requests", Some("a"), all, step).await.unwrap();
        assert_eq!(latencies.iter().map(|row| row.buckets[2]).collect::<Vec<_>>(), counts);
    }
    assert_eq!(metric_history::delete_before(&db, Minute, minute(61), 10).await.unwrap(), 4);
    let hours = metric_history::read(&db, Hour, "requests", None, all, 3_600_000_000).await.unwrap();
    assert_eq!(hours.len(), 2, "the other lengths are kept");
}

async fn the_history_begins_with_its_first_step(db: TestDb) {
    assert_eq!(metric_history::begin(&db).await.unwrap(), None);
    let minute = |n: i64| Timestamp(n * 60_000_000);
    let sample = |n| ("stream_lag", minute(n), String::new(), sample(1, 0.0, 0.0));
    metric_history::add(&db, &[sample(127), sample(400)]).await.unwrap();
    assert_eq!(metric_history::begin(&db).await.unwrap(), Some(minute(127)), "of the young history");
    metric_history::delete_before(&db, Minute, minute(300), 10).await.unwrap();
    assert_eq!(metric_history::begin(&db).await.unwrap(), Some(minute(125)), "five minutes are kept longer");
    metric_history::delete_before(&db, FiveMinutes, minute(300), 10).await.unwrap();
    assert_eq!(metric_history::begin(&db).await.unwrap(), Some(minute(120)), "the hour");
    assert_eq!(Resolution::ALL.map(Resolution::seconds), [60, 300, 3_600]);
}
