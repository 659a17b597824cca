//! Looks at one repo: which of its collections are wanted, and how many records they probably have.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::super::choice::{self, Wanted};
use super::super::failure::{ErrorKind, Failure};
use super::super::meter::Meter;
use super::super::page::RecordPage;
use super::super::request::{PAGE_RECORDS, Server};
use super::Planner;
use belvedere_protocol::atproto::{Did, Nsid, RecordUri, Tid};

/// Collections of a repo that are looked at; further ones are taken to be like these.
const MAX_COLLECTIONS: usize = 3;

/// The ratio of a collection's size to its first page, if its record keys say nothing about that.
const USUAL_PAGES: f64 = 3.0;

/// The measurements of a repo.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) pds: Arc<str>,
    /// Wanted collections in the repo.
    pub(super) present: usize,
    /// Whether it would be read from its CAR if it has long collections.
    pub(super) is_all_wanted: bool,
    /// Wanted records, estimated.
    pub(super) records: f64,
    /// Whether record keys of a long collection are no times: it may have many more records than the estimate.
    pub(super) is_at_least: bool,
    /// Records of the first pages.
    pub(super) first_records: f64,
    /// Bytes of a record in a page, and of its value alone.
    pub(super) page_bytes_per_record: f64,
    pub(super) value_bytes_per_record: f64,
    /// Collections with more than one page.
    pub(super) long: usize,
    /// The latency of one request to the PDS.
    pub(super) latency: Duration,
}

/// The first page of a collection.
struct First {
    records: f64,
    expected: f64,
    bytes: f64,
    value_bytes: f64,
    is_long: bool,
    is_at_least: bool,
}

/// Reads the description of a repo, and the first pages of its wanted collections.
pub(super) async fn sample(planner: &Planner, did: &Did, collections: &[Nsid]) -> Result<Sample, Failure> {
    let document = planner.resolver.resolve(did).await.map_err(|error| Failure::of_identity(&error))?;
    let no_pds = || Failure::new(ErrorKind::DidDocInvalid, "the DID document names no PDS");
    let pds = document.pds().ok_or_else(no_pds)?;
    let meter = Meter::default();
    let server = Server { net: &planner.net, clock: &planner.clock, origin: pds, meter: &meter };
    let started = Instant::now();
    let all = server.collections(did).await?;
    let wanted = collections.iter().filter(|nsid| all.iter().any(|name| name == nsid.as_str()));
    let wanted: Vec<&Nsid> = wanted.collect();
    let mut firsts = Vec::new();
    for collection in wanted.iter().take(MAX_COLLECTIONS) {
        firsts.push(first(&server, did, collection).await?);
    }
    let requests = meter.traffic().page_requests.max(1) as u32;
    let latency = started.elapsed() / requests;
    let sum = |of: fn(&First) -> f64| firsts.iter().map(of).sum::<f64>();
    let records = sum(|first| first.records);
    let of_all = if firsts.is_empty() { 0.0 } else { wanted.len() as f64 / firsts.len() as f64 };
    let long = firsts.iter().filter(|first| first.is_long).count() as f64 * of_all;
    Ok(Sample {
        pds: pds.into(),
        present: wanted.len(),
        is_all_wanted: choice::wanted(&all, collections) == Wanted::All,
        records: sum(|first| first.expected) * of_all,
        is_at_least: firsts.iter().any(|first| first.is_at_least),
        first_records: records * of_all,
        page_bytes_per_record: sum(|first| first.bytes) / records.max(1.0),
        value_bytes_per_record: sum(|first| first.value_bytes) / records.max(1.0),
        long: long.round() as usize,
        latency,
    })
}

async fn first(server: &Server<'_>, did: &Did, collection: &Nsid) -> Result<First, Failure> {
    let mut limit = PAGE_RECORDS;
    let page = server.records(did, collection, None, &mut limit).await?;
    let records = page.records.len() as f64;
    let is_long = page.cursor.is_some() && page.records.len() >= limit;
    let (mut expected, mut is_at_least) = (records, false);
    if is_long {
        let oldest = server.oldest(did, collection).await?;
        let pages = pages(&page, &oldest);
        is_at_least = pages.is_none();
        expected = records * pages.unwrap_or(USUAL_PAGES);
    }
    let value_bytes = page.records.iter().map(|record| record.value.len()).sum::<usize>() as f64;
    Ok(First { records, expected, bytes: page.bytes as f64, value_bytes, is_long, is_at_least })
}

/// The ratio of a collection's size to its newest page. Most record keys are times: then it follows from the time that
/// the page covers, and the time since the oldest record. `None` if they are not.
fn pages(newest: &RecordPage, oldest: &RecordPage) -> Option<f64> {
    let time = |page: &RecordPage, at: usize| {
        let uri = RecordUri::parse(&page.records.get(at)?.uri).ok()?;
        Tid::try_from(uri.rkey.as_str()).ok().map(|tid| tid.as_u64() as f64)
    };
    let times = (time(newest, 0), time(newest, newest.records.len().saturating_sub(1)), time(oldest, 0));
    let (Some(newest), Some(last), Some(oldest)) = times else { return None };
    (newest > last && last >= oldest).then(|| (newest - oldest) / (newest - last))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::super::page::PageRecord;
    use super::*;

    fn page(keys: &[&str]) -> RecordPage {
        let record = |key: &&str| PageRecord {
            uri: format!("at://did:plc:a/com.example.note/{key}"),
            cid: String::new(),
            value: Bytes::new(),
        };
        let records = keys.iter().map(record).collect();
        RecordPage { cursor: None, records, malformed: 0, bytes: 0 }
    }

    #[test]
    fn the_number_of_pages_follows_from_the_times_of_the_keys() {
        let tid =
            |seconds: u64| belvedere_standins::jetstream::tid(1_700_000_000_000_000 + seconds * 1_000_000, 0);
        let of = |newest: &[String], oldest: &[String]| {
            let refs = |keys: &[String]| page(&keys.iter().map(String::as_str).collect::<Vec<_>>());
            pages(&refs(newest), &refs(oldest))
        };
        let newest = [tid(1_000), tid(950), tid(900)];
        assert!((of(&newest, &[tid(0)]).unwrap() - 10.0).abs() < 1e-6);
        assert!((of(&newest, &[tid(900)]).unwrap() - 1.0).abs() < 1e-6);
        for (newest, oldest) in [
            (&newest[..], &[][..]),
            (&newest[..], &["self".to_owned()]),
            (&newest[..], &[tid(960)]),
            (&[tid(5), tid(5)][..], &[tid(1)]),
            (&[][..], &[tid(1)]),
        ] {
            assert_eq!(of(newest, oldest), None, "{newest:?} {oldest:?}");
        }
    }
}
