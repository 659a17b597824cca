//! The queue of notices of writes, and the services that are due to receive them or that of a deletion. The queue has the last
//! state of each repo for each service, so that a service that was away receives one notice for each repo. A gap in the space
//! revs tells it to read the list of repos.

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Did, Tid};

use super::super::{Db, StoreError, on};
use super::attempts::{Attempts, attempts};
use super::columns::{self, SpaceId};
use super::registrations::RegistrationRow;
use super::repos::RepoHost;

/// A notice that waits for its delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub author: Did,
    pub rev: Tid,
    /// The digest of the repo's records.
    pub hash: [u8; 32],
    pub host: RepoHost,
    /// `None` for the authority of a space of another host, which assigns it.
    pub space_rev: Option<Tid>,
    /// The space rev before that one; `None` for the first.
    pub prev_space_rev: Option<Tid>,
    pub queued_at: Timestamp,
}

/// Queues the state of a repo for all services that are registered: `$1` space, `$2` author, `$3` rev, `$4` hash, `$5` space
/// rev, `$6` the one before, `$7` now. It replaces the state that waits.
pub(super) const ENQUEUE: &str = "INSERT INTO space_deliveries (space_id, service, author, rev, hash, space_rev, prev_space_rev, queued_at) \
     SELECT space_id, service, $2, $3, $4, $5, $6, $7 FROM space_registrations WHERE space_id = $1 AND expires_at > $7 \
     ON CONFLICT (space_id, service, author) DO UPDATE SET rev = excluded.rev, hash = excluded.hash, \
         space_rev = excluded.space_rev, prev_space_rev = excluded.prev_space_rev, queued_at = excluded.queued_at";

/// A service whose next attempt is due.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct DueService {
    #[sqlx(flatten)]
    pub service: RegistrationRow,
    /// Whether it receives the notice that the space is deleted, after which [`super::registrations::unregister`] ends it.
    /// Otherwise it receives those that are [`waiting`].
    pub is_space_deleted: bool,
}

/// Services that have notices to receive and whose next attempt is due, the longest due first.
pub async fn due(db: &Db, now: Timestamp, max: u32) -> Result<Vec<DueService>, StoreError> {
    let sql = "SELECT r.space_id, r.service, r.endpoint, r.registered_by, r.expires_at, r.failures, r.next_attempt_at, \
                   s.deleted_at IS NOT NULL AS is_space_deleted \
               FROM space_registrations r JOIN spaces s ON s.id = r.space_id \
               WHERE r.next_attempt_at <= $1 AND r.expires_at > $1 AND (s.deleted_at IS NOT NULL OR EXISTS \
                   (SELECT 1 FROM space_deliveries d WHERE d.space_id = r.space_id AND d.service = r.service)) \
               ORDER BY r.next_attempt_at, r.space_id, r.service LIMIT $2";
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(now).bind(i64::from(max)).fetch_all(pool).await)?)
}

const DELIVERIES: Attempts = attempts!("space_registrations", "next_attempt_at", "service");

/// Begins an attempt. `false` when another host has begun one.
pub async fn begin(db: &Db, service: &RegistrationRow, until: Timestamp) -> Result<bool, StoreError> {
    let row = (service.space_id, service.service.as_str());
    DELIVERIES.begin(db, row, service.next_attempt_at, until).await
}

type Row = (String, String, Vec<u8>, bool, Option<String>, Option<String>, Option<String>, Timestamp);

/// The notices that wait for a service, in the order of their writes.
pub async fn waiting(db: &Db, space: SpaceId, service: &str, max: u32) -> Result<Vec<Notice>, StoreError> {
    let sql = "SELECT d.author, d.rev, d.hash, r.author IS NOT NULL, w.host, d.space_rev, d.prev_space_rev, d.queued_at \
               FROM space_deliveries d \
               LEFT JOIN space_repos r ON r.space_id = d.space_id AND r.author = d.author AND r.copied_bytes IS NULL \
               LEFT JOIN space_writers w ON w.space_id = d.space_id AND w.author = d.author \
               WHERE d.space_id = $1 AND d.service = $2 ORDER BY d.space_rev, d.author LIMIT $3";
    let rows: Vec<Row> = on!(db, reader, |pool| {
        sqlx::query_as(sql).bind(space).bind(service).bind(i64::from(max)).fetch_all(pool).await
    })?;
    let tid = |text: Option<String>| text.map(|text| columns::tid("space_deliveries", &text)).transpose();
    let notice = |(author, rev, hash, is_here, host, space_rev, prev_space_rev, queued_at): Row| {
        Ok(Notice {
            author: columns::did("space_deliveries.author", &author)?,
            rev: columns::tid("space_deliveries.rev", &rev)?,
            hash: columns::digest("space_deliveries.hash", hash)?,
            host: RepoHost::read(is_here, host)?,
            space_rev: tid(space_rev)?,
            prev_space_rev: tid(prev_space_rev)?,
            queued_at,
        })
    };
    rows.into_iter().map(notice).collect()
}

/// Removes a notice that was delivered, unless a later one has replaced it.
pub async fn delivered(db: &Db, space: SpaceId, service: &str, notice: &Notice) -> Result<(), StoreError> {
    let sql =
        "DELETE FROM space_deliveries WHERE space_id = $1 AND service = $2 AND author = $3 AND rev = $4";
    on!(db, writer, |pool| {
        sqlx::query(sql)
            .bind(space)
            .bind(service)
            .bind(notice.author.as_str())
            .bind(notice.rev.to_string())
            .execute(pool)
            .await
            .map(drop)
    })?;
    Ok(())
}

/// Ends the attempt that [`begin`] has begun with `until`, unless the service has another endpoint since then.
pub async fn end(
    db: &Db,
    space: SpaceId,
    service: &str,
    until: Timestamp,
    has_failed: bool,
    next: Timestamp,
) -> Result<(), StoreError> {
    DELIVERIES.end(db, (space, service), until, has_failed, Some(next)).await
}

/// Removes notices that were queued before `before`, at most `max` per call. Returns how many.
pub async fn prune(db: &Db, before: Timestamp, max: u32) -> Result<u64, StoreError> {
    let sql = "DELETE FROM space_deliveries WHERE (space_id, service, author) IN \
               (SELECT space_id, service, author FROM space_deliveries WHERE queued_at < $1 LIMIT $2)";
    Ok(on!(db, writer, |pool| {
        sqlx::query(sql).bind(before).bind(i64::from(max)).execute(pool).await?.rows_affected()
    }))
}

/// The number of notices that wait, of all services.
pub async fn count(db: &Db) -> Result<u64, StoreError> {
    let count: i64 = on!(db, reader, |pool| {
        sqlx::query_scalar("SELECT count(*) FROM space_deliveries").fetch_one(pool).await
    })?;
    Ok(count.max(0) as u64)
}
