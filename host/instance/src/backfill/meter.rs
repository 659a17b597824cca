//! Counts what a job requests from PDSs, receives and keeps.

use std::sync::atomic::{AtomicI64, Ordering};

use belvedere_storage::store::backfill::Traffic;

/// The sources of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Pages of `com.atproto.repo.listRecords`.
    Pages,
    /// The repo as a file, from `com.atproto.sync.getRepo`.
    Car,
}

#[derive(Debug, Default)]
pub(super) struct Meter {
    pages: Count,
    cars: Count,
    car_repos: AtomicI64,
    kept: AtomicI64,
}

#[derive(Debug, Default)]
struct Count {
    requests: AtomicI64,
    bytes: AtomicI64,
}

impl Source {
    fn as_str(self) -> &'static str {
        match self {
            Self::Pages => "pages",
            Self::Car => "car",
        }
    }
}

impl Meter {
    /// Goes on from what earlier runs of the job counted.
    pub(super) fn from(traffic: Traffic) -> Self {
        let Traffic { page_requests, page_bytes, car_requests, car_bytes, car_repos, bytes_kept } = traffic;
        let count = |requests: i64, bytes: i64| Count { requests: requests.into(), bytes: bytes.into() };
        Self {
            pages: count(page_requests, page_bytes),
            cars: count(car_requests, car_bytes),
            car_repos: car_repos.into(),
            kept: bytes_kept.into(),
        }
    }

    pub(super) fn traffic(&self) -> Traffic {
        let load = |counter: &AtomicI64| counter.load(Ordering::Relaxed);
        Traffic {
            page_requests: load(&self.pages.requests),
            page_bytes: load(&self.pages.bytes),
            car_requests: load(&self.cars.requests),
            car_bytes: load(&self.cars.bytes),
            car_repos: load(&self.car_repos),
            bytes_kept: load(&self.kept),
        }
    }

    /// Counts a request.
    pub(super) fn requested(&self, source: Source) {
        self.of(source).requests.fetch_add(1, Ordering::Relaxed);
        metrics::counter!("belvedere_backfill_requests_total", "source" => source.as_str()).increment(1);
    }

    /// Counts bytes of a response's body.
    pub(super) fn received(&self, source: Source, bytes: usize) {
        self.of(source).bytes.fetch_add(bytes as i64, Ordering::Relaxed);
        metrics::counter!("belvedere_backfill_bytes_total", "source" => source.as_str())
            .increment(bytes as u64);
    }

    /// Counts bytes of records that belong to the index.
    pub(super) fn kept(&self, bytes: usize) {
        self.kept.fetch_add(bytes as i64, Ordering::Relaxed);
    }

    /// Counts a repo of which a part was read from a CAR.
    pub(super) fn read_car(&self) {
        self.car_repos.fetch_add(1, Ordering::Relaxed);
    }

    fn of(&self, source: Source) -> &Count {
        match source {
            Source::Pages => &self.pages,
            Source::Car => &self.cars,
        }
    }
}
