//! Deletes spaces, and what an account has in spaces.
//!
//! A space is deleted in one step for its readers and writers: from then on it answers that it is deleted. Its rows are removed
//! afterwards, a limited number in each transaction, and by the sweep if the process ends before. Its own row stays for good, and
//! each of its registrations until its service has received the notice, or it expires.

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Did;

use super::super::index::AccountStatus;
use super::super::{Db, StoreError, on};
use super::columns::{self, SpaceId};
use super::credentials::{REVOKE_OF_ALL, Revoked};
use super::follows;
use super::transaction::with_space;

/// Rows that are removed in one transaction.
const STEP: u64 = 2_000;

/// The tables that are emptied together with the deletion, because their rows give access or are sent. Invites come first: a
/// use of one that has begun ends before, so that its member is removed too.
const AT_ONCE: [&str; 6] = [
    "DELETE FROM space_invites WHERE space_id = $1",
    "DELETE FROM space_members WHERE space_id = $1",
    "DELETE FROM space_credentials WHERE space_id = $1",
    "DELETE FROM space_deliveries WHERE space_id = $1",
    "DELETE FROM space_follows WHERE space_id = $1",
    "DELETE FROM space_followers WHERE space_id = $1",
];

/// The number of rows is a literal: PostgreSQL assumes that a limit in a parameter is a tenth of the table.
macro_rules! step {
    ($table:literal, $key:literal) => {
        concat!(
            "DELETE FROM ",
            $table,
            " WHERE space_id = $1 AND (",
            $key,
            ") IN (SELECT ",
            $key,
            " FROM ",
            $table,
            " WHERE space_id = $1 LIMIT 2000)"
        )
    };
}

/// The other tables, in steps of [`STEP`] rows.
const LARGE: [&str; 5] = [
    step!("space_repos", "author"),
    step!("space_writers", "author"),
    step!("space_blobs", "author, cid, collection, rkey"),
    step!("space_ops", "author, rev, idx"),
    step!("space_records", "author, collection, rkey"),
];

/// Deletes a space. Its registrations stay: each is the notice of the deletion that its service receives
/// ([`super::deliveries::due`]). The rest of its rows is removed by [`purge`].
///
/// Returns the credentials that were revoked in spaces that include its members; `None` when the space does not exist, or was
/// deleted before.
pub async fn delete(db: &Db, space: SpaceId, now: Timestamp) -> Result<Option<Vec<Revoked>>, StoreError> {
    let mark = "UPDATE spaces SET deleted_at = $2, updated_at = $2, display_name = NULL, description = NULL WHERE id = $1";
    let due = "UPDATE space_registrations SET next_attempt_at = $2 WHERE space_id = $1";
    let forget = "DELETE FROM space_registrations WHERE space_id = $1";
    with_space!(db, space, |tx, locked| {
        let Some(locked) = locked else { return Ok(None) };
        sqlx::query(mark).bind(space).bind(now).execute(&mut *tx).await?;
        for sql in AT_ONCE {
            sqlx::query(sql).bind(space).execute(&mut *tx).await?;
        }
        let revoke = sqlx::query_as(REVOKE_OF_ALL).bind(space).bind(now).bind("");
        let revoked = revoke.fetch_all(&mut *tx).await?;
        // The authority of a space of another host knows.
        let services = if locked.is_hosted {
            sqlx::query(due).bind(space).bind(now)
        } else {
            sqlx::query(forget).bind(space)
        };
        services.execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(Some(revoked))
    })
}

/// Removes the rows of deleted spaces that are left. Returns how many.
pub async fn purge(db: &Db, now: Timestamp) -> Result<u64, StoreError> {
    let find = "SELECT id FROM spaces WHERE deleted_at IS NOT NULL AND purged_at IS NULL ORDER BY id LIMIT 1";
    let mark = "UPDATE spaces SET purged_at = $2 WHERE id = $1";
    let mut removed = 0;
    loop {
        let space: Option<SpaceId> =
            on!(db, reader, |pool| sqlx::query_scalar(find).fetch_optional(pool).await)?;
        let Some(space) = space else { return Ok(removed) };
        for sql in LARGE {
            loop {
                let step: u64 = on!(db, writer, |pool| {
                    sqlx::query(sql).bind(space).execute(pool).await?.rows_affected()
                });
                removed += step;
                if step < STEP {
                    break;
                }
            }
        }
        on!(db, writer, |pool| sqlx::query(mark).bind(space).bind(now).execute(pool).await.map(drop))?;
    }
}

/// The tables with rows of an author, whose state goes first.
const OF_AUTHOR: [&str; 6] = [
    "DELETE FROM space_repos WHERE space_id = $1 AND author = $2",
    "DELETE FROM space_writers WHERE space_id = $1 AND author = $2",
    "DELETE FROM space_deliveries WHERE space_id = $1 AND author = $2",
    "DELETE FROM space_blobs WHERE space_id = $1 AND author = $2",
    "DELETE FROM space_ops WHERE space_id = $1 AND author = $2",
    "DELETE FROM space_records WHERE space_id = $1 AND author = $2",
];

/// Removes the repo of an author in a space, in one transaction. `false` when there was none.
pub async fn remove_repo(db: &Db, space: SpaceId, author: &Did) -> Result<bool, StoreError> {
    with_space!(db, space, |tx, _locked| {
        let mut removed = 0;
        for sql in OF_AUTHOR {
            let query = sqlx::query(sql).bind(space).bind(author.as_str());
            removed += query.execute(&mut *tx).await?.rows_affected();
        }
        tx.commit().await?;
        Ok(removed > 0)
    })
}

/// Removes the copy of a repo in a space of another host that is not followed. `false` when it is followed now, or the repo is no copy any
/// more: its author has written to it here.
pub(super) async fn remove_copy(db: &Db, space: SpaceId, author: &Did) -> Result<bool, StoreError> {
    let is_needed = "SELECT EXISTS (SELECT 1 FROM space_follows WHERE space_id = $1) OR NOT EXISTS \
                     (SELECT 1 FROM space_repos WHERE space_id = $1 AND author = $2 AND copied_bytes IS NOT NULL)";
    with_space!(db, space, |tx, locked| {
        let query = sqlx::query_scalar(is_needed).bind(space).bind(author.as_str());
        let is_needed: bool = query.fetch_one(&mut *tx).await?;
        if is_needed || locked.is_none_or(|space| space.is_hosted) {
            return Ok(false);
        }
        for sql in OF_AUTHOR {
            sqlx::query(sql).bind(space).bind(author.as_str()).execute(&mut *tx).await?;
        }
        tx.commit().await?;
        Ok(true)
    })
}

/// Removes everything that a deleted account has in spaces: its repos, memberships, credentials and registrations, the invites
/// that it made, and the hosted spaces of which it is the authority. Such a space of another host is not followed any more: the repos
/// in it that are here are not the authority's. Spaces that it created under another authority stay, and
/// only super users administer them from then on. Can be repeated after a failure. Returns the credentials that were revoked.
pub async fn purge_account(db: &Db, did: &Did, now: Timestamp) -> Result<Vec<Revoked>, StoreError> {
    let owned = "SELECT id FROM spaces WHERE did = $1 AND is_hosted AND deleted_at IS NULL ORDER BY id";
    let elsewhere = "SELECT s.id FROM spaces s JOIN space_follows f ON f.space_id = s.id WHERE s.did = $1 AND NOT s.is_hosted ORDER BY s.id";
    let repos = "SELECT space_id FROM space_repos WHERE author = $1 UNION SELECT space_id FROM space_writers WHERE author = $1 ORDER BY 1";
    let followed = "SELECT space_id FROM space_followers WHERE did = $1";
    let mut revoked = Vec::new();
    for space in ids(db, owned, did).await? {
        revoked.extend(delete(db, space, now).await?.into_iter().flatten());
    }
    for space in ids(db, repos, did).await? {
        remove_repo(db, space, did).await?;
    }
    for space in ids(db, elsewhere, did).await? {
        follows::end_all(db, space).await?;
    }
    for space in ids(db, followed, did).await? {
        follows::end(db, space, did).await?;
    }
    // Invites first, as in a deletion.
    for sql in [
        "DELETE FROM space_invites WHERE created_by = $1",
        "DELETE FROM space_members WHERE member = $1",
        "DELETE FROM space_registrations WHERE registered_by = $1",
        "DELETE FROM space_invite_attempts WHERE did = $1",
    ] {
        on!(db, writer, |pool| sqlx::query(sql).bind(did.as_str()).execute(pool).await.map(drop))?;
    }
    let credentials = "UPDATE space_credentials SET revoked_at = $2 \
                       WHERE did = $1 AND revoked_at IS NULL AND expires_at > $2 RETURNING space_id, jti";
    let own: Vec<Revoked> = on!(db, writer, |pool| {
        sqlx::query_as(credentials).bind(did.as_str()).bind(now).fetch_all(pool).await?
    });
    revoked.extend(own);
    purge(db, now).await?;
    Ok(revoked)
}

/// Accounts that were deleted since a time and still have something in spaces, at most `max`. Those that the stream has reported
/// more than a week ago are not found ([`super::super::index::prune_tombstones`]).
pub async fn deleted_accounts(db: &Db, since: Timestamp, max: u32) -> Result<Vec<Did>, StoreError> {
    let sql = "SELECT d.did FROM repo_tombstones t JOIN dids d ON d.id = t.did_id \
               WHERE t.deleted_at >= $1 AND coalesce(d.network_status, d.status) = $2 \
                   AND (EXISTS (SELECT 1 FROM space_repos r WHERE r.author = d.did) \
                       OR EXISTS (SELECT 1 FROM space_writers w WHERE w.author = d.did) \
                       OR EXISTS (SELECT 1 FROM space_members m WHERE m.member = d.did) \
                       OR EXISTS (SELECT 1 FROM space_followers f WHERE f.did = d.did) \
                       OR EXISTS (SELECT 1 FROM spaces s WHERE s.did = d.did AND s.deleted_at IS NULL \
                           AND (s.is_hosted OR EXISTS (SELECT 1 FROM space_follows f WHERE f.space_id = s.id)))) \
               ORDER BY t.deleted_at LIMIT $3";
    let dids: Vec<String> = on!(db, reader, |pool| {
        let query = sqlx::query_scalar(sql).bind(since).bind(AccountStatus::Deleted as i16);
        query.bind(i64::from(max)).fetch_all(pool).await
    })?;
    dids.iter().map(|did| columns::did("dids.did", did)).collect()
}

async fn ids(db: &Db, sql: &'static str, did: &Did) -> Result<Vec<SpaceId>, StoreError> {
    Ok(on!(db, reader, |pool| sqlx::query_scalar(sql).bind(did.as_str()).fetch_all(pool).await)?)
}
