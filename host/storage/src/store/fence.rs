//! Keeps a host that hung from writing after another host has taken its lease.

use sqlx::PgConnection;

/// A term of a lease that must not be over when a transaction writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fence {
    /// The row of `stream_cursors` with the newest term.
    source: &'static str,
    term: i64,
}

impl Fence {
    pub(super) fn new(source: &'static str, term: i64) -> Self {
        Self { source, term }
    }

    /// Checks the term and locks its row, so that the next term can't begin before the transaction ends. Fails with
    /// [`TermOver`].
    pub(super) async fn check(self, transaction: &mut PgConnection) -> Result<(), sqlx::Error> {
        let sql = "SELECT 1 FROM stream_cursors WHERE source = $1 AND cursor = $2 FOR SHARE";
        let row = sqlx::query(sql).bind(self.source).bind(self.term).fetch_optional(transaction).await?;
        row.map(drop).ok_or_else(|| sqlx::Error::Configuration(Box::new(TermOver)))
    }
}

/// Another host has taken the lease. It is an error of sqlx, so that a transaction can fail with it where it begins;
/// callers get [`super::StoreError::Superseded`].
#[derive(Debug, thiserror::Error)]
#[error("another host has the lease")]
pub(super) struct TermOver;
