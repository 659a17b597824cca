//! The history of metrics: hosts add to the same steps, wider steps, the sweep.

use crate::clock::Timestamp;
use crate::store::metric_history::{self, Sample, StepRow};

const STEP: i64 = 300_000_000;

fn at(step: i64) -> Timestamp {
    Timestamp(step * STEP)
}

fn sample(count: i64, total: f64, max: f64) -> Sample {
    Sample { count, total, max }
}

on_both! {
    async fn hosts_add_to_the_same_steps(db) {
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
        let row = |step: i64, label: &str, Sample { count, total, max }| StepRow {
            at: at(step), label: label.to_owned(), count, total, max,
        };
        let all = (at(0), at(20));
        let found = metric_history::read(&db, "requests", None, all, STEP).await.unwrap();
        assert_eq!(found, [
            row(10, "a", sample(1, 1.0, 1.0)),
            row(10, "b", sample(5, 6.5, 4.0)),
            row(11, "b", sample(1, 9.0, 9.0)),
        ]);
        // A wider step begins at a multiple of its length.
        let wide = metric_history::read(&db, "requests", Some("b"), all, 2 * STEP).await.unwrap();
        assert_eq!(wide, [row(10, "b", sample(6, 15.5, 9.0))]);
        // The end is exclusive.
        let part = metric_history::read(&db, "requests", Some("b"), (at(10), at(11)), STEP).await.unwrap();
        assert_eq!(part.len(), 1);
    }

    async fn old_steps_are_removed_in_parts(db) {
        let samples: Vec<_> =
            (0..5).map(|n| ("requests", at(n), format!("m{n}"), sample(1, 0.0, 0.0))).collect();
        metric_history::add(&db, &samples).await.unwrap();
        assert_eq!(metric_history::delete_before(&db, at(3), 2).await.unwrap(), 2);
        assert_eq!(metric_history::delete_before(&db, at(3), 2).await.unwrap(), 1);
        let left = metric_history::read(&db, "requests", None, (at(0), at(9)), STEP).await.unwrap();
        assert_eq!(left.iter().map(|row| row.at).collect::<Vec<_>>(), [at(3), at(4)]);
    }
}
