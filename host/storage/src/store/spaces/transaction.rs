//! Runs a transaction that holds the row of a space.
//!
//! These come one after the other in a space: writes to its repos, new invites, credentials and registrations, changes of
//! settings, and of members by an administrator, and its deletion. So each finds the space as it is, and space revs have an order. An
//! account that accepts an invite, or is purged, does not hold the space: see [`super::deletion`].

use belvedere_protocol::atproto::Tid;

use super::super::StoreError;
use super::columns;

/// A space that is not deleted, in a transaction that holds its row.
#[derive(Clone, Copy, Debug)]
pub(super) struct LockedSpace {
    pub rev: Option<Tid>,
    pub is_hosted: bool,
}

impl LockedSpace {
    pub(super) fn of(row: Option<(Option<String>, bool)>) -> Result<Option<Self>, StoreError> {
        let Some((rev, is_hosted)) = row else { return Ok(None) };
        let rev = rev.map(|rev| columns::tid("spaces.rev", &rev)).transpose()?;
        Ok(Some(Self { rev, is_hosted }))
    }
}

/// Selects a space that is not deleted. On SQLite the transaction is the only one that writes.
pub(super) const SELECT: &str = "SELECT rev, is_hosted FROM spaces WHERE id = $1 AND deleted_at IS NULL";
/// Also locks the row.
pub(super) const SELECT_FOR_UPDATE: &str =
    "SELECT rev, is_hosted FROM spaces WHERE id = $1 AND deleted_at IS NULL FOR NO KEY UPDATE";

/// Evaluates code in a transaction that holds the row of a space: `with_space!(db, id, |tx, space| …)`. `space` is `None` for
/// a deleted one. The code commits; a transaction that is dropped changes nothing.
macro_rules! with_space {
    ($db:expr, $id:expr, |$tx:ident, $space:ident| $body:expr) => {
        match $db {
            $crate::store::Db::Sqlite(db) => {
                let mut $tx = db.writer.begin_with("BEGIN IMMEDIATE").await?;
                let row = sqlx::query_as($crate::store::spaces::transaction::SELECT);
                let row = row.bind($id).fetch_optional(&mut *$tx).await?;
                let $space = $crate::store::spaces::transaction::LockedSpace::of(row)?;
                $body
            }
            $crate::store::Db::Postgres(db) => {
                let mut $tx = db.writer().begin().await?;
                let row = sqlx::query_as($crate::store::spaces::transaction::SELECT_FOR_UPDATE);
                let row = row.bind($id).fetch_optional(&mut *$tx).await?;
                let $space = $crate::store::spaces::transaction::LockedSpace::of(row)?;
                $body
            }
        }
    };
}
pub(super) use with_space;
