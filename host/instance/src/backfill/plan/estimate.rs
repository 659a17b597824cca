//! Extrapolates from a sample of repos to all.

use std::collections::HashMap;
use std::time::Duration;

use super::sample::Sample;
use super::{Listed, Plan, Share};
use crate::settings::backfill::BackfillSettings;

/// Bytes of a record in a CAR besides its DAG-CBOR, for its block and its share of the tree.
const CAR_BYTES_PER_RECORD: f64 = 110.0;

/// DAG-CBOR is a little shorter than JSON.
const CBOR_PER_JSON: f64 = 0.9;

/// Requests of every repo besides its pages: the latest commit.
const REQUESTS_PER_REPO: f64 = 1.0;

/// Bytes that one request transfers in a second.
const BYTES_PER_SECOND: f64 = 1_048_576.0;

const PAGE_RECORDS: f64 = super::super::request::PAGE_RECORDS as f64;

/// Costs of one repo.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    requests: f64,
    bytes: f64,
}

/// The costs of one source for the repos of the sample.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    repos: f64,
    cost: Cost,
}

pub(super) fn estimate(
    listed: &Listed,
    chosen: usize,
    samples: &[Sample],
    collections: usize,
    settings: BackfillSettings,
) -> Plan {
    let mut plan = Plan {
        repos: listed.dids.len() as u64,
        repos_at_least: !listed.is_complete,
        lists_all_repos: listed.is_of_all,
        sampled: chosen as u64,
        unreachable: (chosen - samples.len()) as u64,
        records_at_least: samples.iter().any(|sample| sample.is_at_least),
        ..Plan::default()
    };
    if samples.is_empty() {
        return plan;
    }
    // Repos that can't be read cost little and give nothing.
    let per_sample = listed.dids.len() as f64 / chosen as f64;
    let (mut pages, mut car) = (Sum::default(), Sum::default());
    let mut hosts: HashMap<&str, f64> = HashMap::new();
    for sample in samples {
        let is_car = sample.is_all_wanted && sample.long > 0;
        let cost = if is_car { car_cost(sample, collections) } else { pages_cost(sample, collections) };
        let sum = if is_car { &mut car } else { &mut pages };
        sum.repos += 1.0;
        sum.cost.requests += cost.requests;
        sum.cost.bytes += cost.bytes;
        *hosts.entry(&*sample.pds).or_default() += seconds(sample, cost);
    }
    plan.records = round(samples.iter().map(|sample| sample.records).sum::<f64>() * per_sample);
    plan.sources.pages = pages.share(per_sample);
    plan.sources.car = car.share(per_sample);
    plan.requests = plan.sources.pages.requests + plan.sources.car.requests;
    plan.bytes = plan.sources.pages.bytes + plan.sources.car.bytes;

    // All hosts at the same time, but the largest one has its own limit.
    let per_host = f64::from(settings.concurrent_dids_per_pds);
    let together = f64::from(settings.concurrent_pds).min(hosts.len() as f64) * per_host;
    let all: f64 = hosts.values().sum();
    let largest = hosts.values().copied().fold(0.0, f64::max);
    let fetching = (all / together).max(largest / per_host) * per_sample;
    plan.seconds = round((listed.took.as_secs_f64() + fetching).max(1.0));
    plan
}

/// First pages of all wanted collections, present or not; then pages to the end of each. PDSs give a cursor with each page
/// that has records, so there is an empty one at the end.
fn pages_cost(sample: &Sample, collections: usize) -> Cost {
    let more = ((sample.records - sample.first_records) / PAGE_RECORDS).max(0.0).ceil();
    let described = f64::from(u8::from(sample.long > 0));
    let requests = REQUESTS_PER_REPO + collections as f64 + more + described + sample.present as f64;
    Cost { requests, bytes: sample.records * sample.page_bytes_per_record }
}

/// First pages, a description and the CAR.
fn car_cost(sample: &Sample, collections: usize) -> Cost {
    let in_car = sample.value_bytes_per_record * CBOR_PER_JSON + CAR_BYTES_PER_RECORD;
    Cost {
        requests: REQUESTS_PER_REPO + collections as f64 + 2.0,
        bytes: sample.first_records * sample.page_bytes_per_record + sample.records * in_car,
    }
}

fn seconds(sample: &Sample, cost: Cost) -> f64 {
    cost.requests * sample.latency.max(Duration::from_millis(1)).as_secs_f64() + cost.bytes / BYTES_PER_SECOND
}

impl Sum {
    fn share(self, per_sample: f64) -> Share {
        Share {
            repos: round(self.repos * per_sample),
            requests: round(self.cost.requests * per_sample),
            bytes: round(self.cost.bytes * per_sample),
        }
    }
}

fn round(number: f64) -> u64 {
    number.round().max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use belvedere_protocol::atproto::Did;

    const SETTINGS: BackfillSettings = BackfillSettings {
        concurrent_pds: 10,
        concurrent_dids_per_pds: 2,
        concurrent_resolution: 100,
        max_attempts: 3,
        retention_days: 28,
        max_repos: 1_000,
    };

    fn listed(count: usize) -> Listed {
        let dids = (0..count).map(|n| Did::try_from(format!("did:plc:{n}").as_str()).unwrap()).collect();
        Listed { dids, is_complete: true, is_of_all: false, took: Duration::from_secs(3) }
    }

    /// A repo with one of two wanted collections, whose values have 200 bytes.
    fn sample(pds: &str, records: f64) -> Sample {
        Sample {
            pds: pds.into(),
            present: 1,
            is_all_wanted: false,
            records,
            is_at_least: false,
            first_records: f64::min(records, 100.0),
            page_bytes_per_record: 400.0,
            value_bytes_per_record: 200.0,
            long: usize::from(records > 100.0),
            latency: Duration::from_millis(100),
        }
    }

    #[test]
    fn a_sample_stands_for_all_repos() {
        let samples =
            [sample("a", 50.0), sample("b", 450.0), Sample { is_all_wanted: true, ..sample("c", 450.0) }];
        let plan = estimate(&listed(400), 4, &samples, 2, SETTINGS);
        assert_eq!((plan.repos, plan.sampled, plan.unreachable), (400, 4, 1));
        assert_eq!(plan.records, 95_000);
        // 1 + 2 + an empty page, and 1 + 2 + a description + four more pages and an empty one.
        let requests = 100 * (4 + 9);
        assert_eq!(plan.sources.pages, Share { repos: 200, requests, bytes: 100 * 500 * 400 });
        // A page, and 450 records of 200 * 0.9 + 110 bytes.
        assert_eq!(plan.sources.car, Share { repos: 100, requests: 500, bytes: 100 * (40_000 + 450 * 290) });
        assert_eq!(plan.requests, requests + 500);
        assert_eq!(plan.bytes, plan.sources.pages.bytes + plan.sources.car.bytes);
        assert!(!plan.records_at_least);
        // The list, and requests of 0.1 s at 3 hosts with 2 each; the largest host has most.
        assert!((40..60).contains(&plan.seconds), "{}", plan.seconds);
    }

    #[test]
    fn a_guessed_size_makes_the_numbers_lower_bounds() {
        let samples = [sample("a", 50.0), Sample { is_at_least: true, ..sample("b", 1_500.0) }];
        assert!(estimate(&listed(2), 2, &samples, 1, SETTINGS).records_at_least);
    }

    #[test]
    fn without_a_sample_only_the_repos_are_known() {
        let plan = estimate(&Listed { is_complete: false, ..listed(7) }, 7, &[], 1, SETTINGS);
        assert_eq!((plan.repos, plan.repos_at_least, plan.unreachable, plan.requests), (7, true, 7, 0));
        let none = estimate(&listed(0), 0, &[], 1, SETTINGS);
        assert_eq!(none, Plan::default());
    }
}
