//! Services that receive notices of the writes in a space. For a space of another host this is its authority.

use belvedere_base::clock::Timestamp;

use super::super::{Db, StoreError, in_transaction, on};
use super::columns::SpaceId;
use super::transaction::with_space;

/// Services of one space. Each tracked write queues a notice for each of them.
pub const MAX_REGISTRATIONS: i64 = 200;

/// A service that receives notices.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct RegistrationRow {
    pub space_id: SpaceId,
    /// The DID of the service, with the fragment that names it in the DID document.
    pub service: String,
    /// The origin of its server; empty for the authority of a space of another host, which is looked up.
    pub endpoint: String,
    /// The caller that registered it: a DID.
    pub registered_by: String,
    pub expires_at: Timestamp,
    /// Attempts that failed since the last one that did not.
    pub failures: i64,
    pub next_attempt_at: Timestamp,
}

/// The result of registering a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registered {
    Stored,
    /// There is no such space, or it was deleted.
    NoSpace,
    /// The space has [`MAX_REGISTRATIONS`] others.
    TooMany,
}

/// Registers a service until a time, or renews its registration; notices that wait for it stay. The pause after failures stays
/// too, unless the endpoint is another one.
pub async fn register(
    db: &Db,
    space: SpaceId,
    service: &str,
    endpoint: &str,
    registered_by: &str,
    expires_at: Timestamp,
    now: Timestamp,
) -> Result<Registered, StoreError> {
    let count =
        "SELECT count(*) FROM space_registrations WHERE space_id = $1 AND service <> $2 AND expires_at > $3";
    let sql = "INSERT INTO space_registrations (space_id, service, endpoint, registered_by, expires_at, failures, \
                   next_attempt_at) VALUES ($1, $2, $3, $4, $5, 0, $6) \
               ON CONFLICT (space_id, service) DO UPDATE SET endpoint = excluded.endpoint, \
                   registered_by = excluded.registered_by, expires_at = excluded.expires_at, \
                   failures = CASE WHEN space_registrations.endpoint = excluded.endpoint \
                       THEN space_registrations.failures ELSE 0 END, \
                   next_attempt_at = CASE WHEN space_registrations.endpoint = excluded.endpoint \
                       THEN space_registrations.next_attempt_at ELSE excluded.next_attempt_at END";
    with_space!(db, space, |tx, locked| {
        if locked.is_none() {
            return Ok(Registered::NoSpace);
        }
        let others: i64 =
            sqlx::query_scalar(count).bind(space).bind(service).bind(now).fetch_one(&mut *tx).await?;
        if others >= MAX_REGISTRATIONS {
            return Ok(Registered::TooMany);
        }
        sqlx::query(sql)
            .bind(space)
            .bind(service)
            .bind(endpoint)
            .bind(registered_by)
            .bind(expires_at)
            .bind(now)
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(Registered::Stored)
    })
}

/// A registration that has not expired.
pub async fn get(
    db: &Db,
    space: SpaceId,
    service: &str,
    now: Timestamp,
) -> Result<Option<RegistrationRow>, StoreError> {
    let sql = "SELECT space_id, service, endpoint, registered_by, expires_at, failures, next_attempt_at \
               FROM space_registrations WHERE space_id = $1 AND service = $2 AND expires_at > $3";
    Ok(on!(db, reader, |pool| {
        sqlx::query_as(sql).bind(space).bind(service).bind(now).fetch_optional(pool).await
    })?)
}

/// All registrations of a space that have not expired, sorted by service.
pub async fn list(db: &Db, space: SpaceId, now: Timestamp) -> Result<Vec<RegistrationRow>, StoreError> {
    let sql = "SELECT space_id, service, endpoint, registered_by, expires_at, failures, next_attempt_at \
               FROM space_registrations WHERE space_id = $1 AND expires_at > $2 ORDER BY service";
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(space).bind(now).fetch_all(pool).await)?)
}

/// Removes a registration and the notices that wait for it. `false` when there was none.
pub async fn unregister(db: &Db, space: SpaceId, service: &str) -> Result<bool, StoreError> {
    let notices = "DELETE FROM space_deliveries WHERE space_id = $1 AND service = $2";
    let registration = "DELETE FROM space_registrations WHERE space_id = $1 AND service = $2";
    // The space is held, so that no write queues a notice between the statements.
    with_space!(db, space, |tx, _locked| {
        sqlx::query(notices).bind(space).bind(service).execute(&mut *tx).await?;
        let removed = sqlx::query(registration).bind(space).bind(service).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(removed.rows_affected() > 0)
    })
}

/// Removes registrations that have expired, at most `max` per call, and the notices that wait for them. Returns how many
/// registrations.
pub async fn prune(db: &Db, now: Timestamp, max: u32) -> Result<u64, StoreError> {
    let registrations = "DELETE FROM space_registrations WHERE (space_id, service) IN \
                             (SELECT space_id, service FROM space_registrations WHERE expires_at <= $1 LIMIT $2) \
                         RETURNING space_id, service";
    let notices = "DELETE FROM space_deliveries WHERE space_id = $1 AND service = $2";
    Ok(in_transaction!(db, |tx| {
        let query = sqlx::query_as(registrations).bind(now).bind(i64::from(max));
        let pruned: Vec<(SpaceId, String)> = query.fetch_all(&mut *tx).await?;
        for (space, service) in &pruned {
            sqlx::query(notices).bind(space).bind(service).execute(&mut *tx).await?;
        }
        pruned.len() as u64
    }))
}
