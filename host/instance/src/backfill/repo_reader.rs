//! The services with which a job reads its repos.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use tokio_util::sync::CancellationToken;

use super::choice::Cars;
use super::meter::Meter;
use crate::identity::Resolver;
use crate::indexing::{RecordChecker, RecordScriptRunner, WriterHandle};
use crate::lexicons::Registry;
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_protocol::atproto::Nsid;
use belvedere_storage::store::Db;
use belvedere_web::net::Client;

/// The services for reading a repo, the same for all repos of a job.
pub(super) struct RepoReader {
    pub(super) db: Db,
    pub(super) net: Client,
    pub(super) clock: Clock,
    pub(super) resolver: Resolver,
    pub(super) writer: WriterHandle,
    pub(super) scripts: Arc<dyn RecordScriptRunner>,
    pub(super) checker: Arc<RecordChecker>,
    /// The job's `seq`.
    pub(super) job: i64,
    /// Positions in repos were stored before the job was continued.
    pub(super) is_continued: bool,
    /// The job reads repos that failed or have changed: cached documents of their DIDs may be outdated.
    pub(super) is_retry: bool,
    pub(super) registry: Arc<Registry>,
    pub(super) collections: Arc<[Nsid]>,
    /// Records of the job so far.
    pub(super) records: Arc<AtomicI64>,
    /// For a catch-up: repos without a later commit are not read, and accounts get the status that their PDS reports.
    pub(super) changed_since: Option<Timestamp>,
    pub(super) meter: Arc<Meter>,
    pub(super) cars: Cars,
    /// Cancelled when the job is to stop, and when it ends by itself.
    pub(super) stop: CancellationToken,
}
