//! The distribution of calls over latencies, and the percentiles that follow.

use belvedere_storage::store::request_latencies::{BUCKETS, LatencyRow};

/// The upper bounds of the buckets in milliseconds; calls above the last one have a bucket of their own. Within a bucket a
/// percentile is interpolated, so it is wrong by less than the bucket's width.
const BOUNDS_MS: [f64; BUCKETS - 1] =
    [0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0, 5_000.0];

/// One call of this latency.
pub(super) fn one(millis: f64) -> [i64; BUCKETS] {
    let mut buckets = [0; BUCKETS];
    buckets[BOUNDS_MS.partition_point(|bound| *bound < millis)] = 1;
    buckets
}

/// The latency that `percent` of the calls did not exceed, in milliseconds.
pub(super) fn percentile(row: &LatencyRow, percent: u8) -> f64 {
    let total: i64 = row.buckets.iter().sum();
    let wanted = total as f64 * f64::from(percent) / 100.0;
    let mut before = 0.0;
    for (n, count) in row.buckets.iter().enumerate() {
        let count = *count as f64;
        if count > 0.0 && before + count >= wanted {
            let lower = if n == 0 { 0.0 } else { BOUNDS_MS[n - 1] };
            let upper = BOUNDS_MS.get(n).copied().unwrap_or(f64::INFINITY).min(row.max.max(lower));
            return lower + (upper - lower) * (wanted - before) / count;
        }
        before += count;
    }
    row.max
}

#[cfg(test)]
mod tests {
    use super::*;
    use belvedere_base::clock::Timestamp;

    fn row(millis: &[f64]) -> LatencyRow {
        let mut buckets = [0; BUCKETS];
        for call in millis {
            for (sum, count) in buckets.iter_mut().zip(one(*call)) {
                *sum += count;
            }
        }
        let max = millis.iter().copied().fold(0.0, f64::max);
        LatencyRow { at: Timestamp(0), label: String::new(), max, buckets }
    }

    #[test]
    fn every_latency_has_one_bucket() {
        for (millis, bucket) in
            [(0.0, 0), (0.2, 0), (0.21, 1), (5.0, 4), (5_000.0, 13), (5_001.0, 14), (1e9, 14)]
        {
            let found = one(millis);
            assert_eq!((found.iter().sum::<i64>(), found[bucket]), (1, 1), "{millis}");
        }
    }

    #[test]
    fn percentiles_lie_within_their_bucket() {
        let calls: Vec<f64> = (1..=100).map(f64::from).collect();
        let all = row(&calls);
        for (percent, exact) in [(50, 50.0), (90, 90.0), (99, 99.0), (100, 100.0)] {
            let found = percentile(&all, percent);
            assert!((found - exact).abs() < 1.0, "{percent}: {found}");
        }
        // Never above the slowest call, and between the bounds of the bucket.
        assert!((1.0..=1.2).contains(&percentile(&row(&[1.2]), 99)));
        let slow = percentile(&row(&[1.0, 7_000.0]), 99);
        assert!((5_000.0..=7_000.0).contains(&slow), "{slow}");
        assert!(percentile(&row(&[0.1; 99].into_iter().chain([400.0]).collect::<Vec<_>>()), 50) <= 0.2);
    }
}
