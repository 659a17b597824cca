//! A job's requests to PDSs and the bytes that it received, by source.

use sqlx::AssertSqlSafe;

use crate::store::{Db, StoreError, on};

/// Requests to PDSs and their answers since the job began. Bytes are those of bodies, after decompression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, sqlx::FromRow)]
pub struct Traffic {
    /// Pages of records, and the small requests that each repo needs besides.
    pub page_requests: i64,
    pub page_bytes: i64,
    pub car_requests: i64,
    pub car_bytes: i64,
    /// Repos of which a part was read from a CAR.
    pub car_repos: i64,
    /// Bytes of the valid records of wanted collections, as JSON.
    pub bytes_kept: i64,
}

/// The columns of [`Traffic`]. Jobs from before the counters have none.
pub(super) const COLUMNS: &str = "coalesce(page_requests, 0) AS page_requests, coalesce(page_bytes, 0) AS page_bytes, \
     coalesce(car_requests, 0) AS car_requests, coalesce(car_bytes, 0) AS car_bytes, \
     coalesce(car_repos, 0) AS car_repos, coalesce(bytes_kept, 0) AS bytes_kept";

impl Traffic {
    /// The statement that stores the counters.
    pub(super) fn save<DB>(&self, seq: i64) -> sqlx::query::Query<'static, DB, DB::Arguments>
    where
        DB: sqlx::Database,
        i64: for<'q> sqlx::Encode<'q, DB> + sqlx::Type<DB>,
    {
        let sql = "UPDATE backfill_jobs SET page_requests = $2, page_bytes = $3, car_requests = $4, car_bytes = $5, \
                   car_repos = $6, bytes_kept = $7 WHERE seq = $1";
        let query = sqlx::query(sql).bind(seq).bind(self.page_requests).bind(self.page_bytes);
        query.bind(self.car_requests).bind(self.car_bytes).bind(self.car_repos).bind(self.bytes_kept)
    }
}

/// The stored counters of a job.
pub async fn traffic(db: &Db, seq: i64) -> Result<Traffic, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM backfill_jobs WHERE seq = $1");
    Ok(on!(db, reader, |pool| sqlx::query_as(AssertSqlSafe(sql)).bind(seq).fetch_one(pool).await)?)
}
