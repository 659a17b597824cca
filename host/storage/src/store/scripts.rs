//! Stores scripts, keyed by their trigger.

use schemars::JsonSchema;
use serde::Serialize;

use belvedere_base::clock::Timestamp;

use super::revisions::{Subject, check_base};
use super::schedules::DROP_SCHEDULE;
use super::script_recordings::DROP_RECORDING;
use super::script_revisions::ADD_SAVED;
use super::script_rollouts::{DROP_ROLLOUT, END_ROLLOUT};
use super::types::{JsonText, to_json_text};
use super::{Backend, Db, Patch, StoreError, in_transaction, on};

#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow, Serialize, JsonSchema)]
#[schemars(rename = "Script")]
pub struct ScriptRow {
    /// The trigger, for example `xrpc.query:com.example.list`.
    pub id: String,
    pub script_type: String,
    pub body: String,
    pub description: Option<String>,
    #[sqlx(try_from = "JsonText<Option<Vec<String>>>")]
    pub outbound_xrpcs: Option<Vec<String>>,
    /// The newest revision of body and description. A change may say that it is based on it.
    pub revision: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A script without its body.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow, Serialize, JsonSchema)]
pub struct ScriptName {
    /// The trigger.
    pub id: String,
    pub description: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub struct NewScript {
    pub id: String,
    pub script_type: String,
    pub body: String,
    pub description: Option<String>,
    pub outbound_xrpcs: Option<Vec<String>>,
    /// The admin's DID, for the revision.
    pub saved_by: Option<String>,
    /// The revision that it replaces, 0 for a new script; `None`: whichever there is.
    pub based_on: Option<i64>,
    /// The script that must not exist beside it.
    pub unless: Option<String>,
}

impl NewScript {
    /// `outbound_xrpcs` as it is stored.
    pub(super) fn outbound_json(&self) -> Option<String> {
        self.outbound_xrpcs.as_ref().map(|list| to_json_text(list))
    }
}

#[derive(Clone, Debug, Default)]
pub struct ScriptPatch {
    pub script_type: Option<String>,
    /// The body and the `outbound_xrpcs` derived from it.
    pub body: Option<(String, Option<Vec<String>>)>,
    pub description: Patch<String>,
    /// The revision that it changes; `None`: whichever there is.
    pub based_on: Option<i64>,
    /// The admin's DID, for the revision.
    pub saved_by: Option<String>,
}

/// Adds a revision of a script to its history and removes the oldest ones, within a transaction: `$sql` is
/// [`ADD_SAVED`], or that of a deletion.
macro_rules! add_revision {
    ($tx:ident, $sql:expr, $id:expr, $saved_by:expr, $now:expr) => {
        let (add, drop_old) = (sqlx::query($sql), sqlx::query($crate::store::script_revisions::DROP_OLD));
        add.bind($id).bind($saved_by).bind($now).execute(&mut *$tx).await?;
        drop_old.bind($id).bind($crate::store::script_revisions::MAX_REVISIONS).execute(&mut *$tx).await?;
    };
}

pub(super) use add_revision;

macro_rules! select {
    ($tail:literal) => {
        concat!(
            "SELECT id, script_type, body, description, outbound_xrpcs, coalesce((SELECT max(revision) FROM saved_scripts \
                 WHERE script_id = scripts.id), 0) AS revision, created_at, updated_at FROM scripts ",
            $tail
        )
    };
}

/// Scripts sorted by id; with `suffix`, only those whose id ends in `:<suffix>`.
pub async fn list(db: &Db, suffix: Option<&str>) -> Result<Vec<ScriptRow>, StoreError> {
    let all = select!("ORDER BY id");
    // Filtered here, because there are few scripts and LIKE would interpret `%` and `_`.
    let mut rows: Vec<ScriptRow> = on!(db, reader, |pool| sqlx::query_as(all).fetch_all(pool).await)?;
    if let Some(suffix) = suffix {
        rows.retain(|row| row.id.strip_suffix(suffix).is_some_and(|rest| rest.ends_with(':')));
    }
    Ok(rows)
}

/// The ids and descriptions of all scripts, sorted by id.
pub async fn names(db: &Db) -> Result<Vec<ScriptName>, StoreError> {
    let sql = "SELECT id, description FROM scripts ORDER BY id";
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).fetch_all(pool).await)?)
}

pub async fn get(db: &Db, id: &str) -> Result<Option<ScriptRow>, StoreError> {
    let sql = select!("WHERE id = $1");
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(id).fetch_optional(pool).await)?)
}

/// Creates or replaces a script within a transaction: `true` when it is new.
macro_rules! save {
    ($tx:ident, $script:expr, $now:expr) => {{
        let script: &$crate::store::scripts::NewScript = $script;
        let outbound = script.outbound_json();
        if let Some(other) = &script.unless {
            let found: Option<(i64,)> =
                sqlx::query_as($crate::store::scripts::EXISTS).bind(other).fetch_optional(&mut *$tx).await?;
            if found.is_some() {
                return Err($crate::store::StoreError::Conflict(format!("the script {other} exists")));
            }
        }
        let end = sqlx::query($crate::store::script_rollouts::END_ROLLOUT);
        end.bind(&script.id).bind(&script.body).bind($now).execute(&mut *$tx).await?;
        let mut created = true;
        for sql in $crate::store::scripts::INSERT_OR_UPDATE {
            let changed = sqlx::query(sql)
                .bind(&script.id)
                .bind(&script.script_type)
                .bind(&script.body)
                .bind(&script.description)
                .bind(&outbound)
                .bind($now)
                .execute(&mut *$tx)
                .await?
                .rows_affected();
            if changed > 0 {
                break;
            }
            created = false;
        }
        $crate::store::revisions::check_base!(
            $tx,
            $crate::store::revisions::Subject::Script,
            &script.id,
            script.based_on
        );
        $crate::store::scripts::add_revision!(
            $tx,
            $crate::store::script_revisions::ADD_SAVED,
            &script.id,
            &script.saved_by,
            $now
        );
        created
    }};
}
pub(super) use save;

/// The first statement that has an effect saves a script.
pub(super) const INSERT_OR_UPDATE: [&str; 2] = [
    "INSERT INTO scripts (id, script_type, body, description, outbound_xrpcs, created_at, updated_at) \
     VALUES ($1, $2, $3, $4, $5, $6, $6) ON CONFLICT (id) DO NOTHING",
    "UPDATE scripts SET script_type = $2, body = $3, description = $4, outbound_xrpcs = $5, updated_at = $6 WHERE id = $1",
];

pub(super) const EXISTS: &str = "SELECT CAST(1 AS BIGINT) FROM scripts WHERE id = $1";

/// Before a script is saved that must not be beside another: SQLite has one writer, and scripts are saved rarely.
pub(super) const LOCK_POSTGRES: &str = "LOCK TABLE scripts IN SHARE ROW EXCLUSIVE MODE";

/// Creates or replaces a script; a replacement keeps `created_at`. Returns `true` when the script is new.
///
/// # Errors
/// [`StoreError::Conflict`] when the script exists that must not, [`StoreError::Stale`].
pub async fn upsert(db: &Db, script: &NewScript, now: Timestamp) -> Result<(ScriptRow, bool), StoreError> {
    let select = select!("WHERE id = $1");
    let lock = match db.backend() {
        Backend::Postgres => script.unless.as_ref().map(|_| LOCK_POSTGRES),
        Backend::Sqlite => None,
    };
    Ok(in_transaction!(db, |tx| {
        if let Some(lock) = lock {
            sqlx::query(lock).execute(&mut *tx).await?;
        }
        let created = save!(tx, script, now);
        let row = sqlx::query_as(select).bind(&script.id).fetch_one(&mut *tx).await?;
        (row, created)
    }))
}

/// `None` when there is no such script.
///
/// # Errors
/// [`StoreError::Stale`].
pub async fn patch(
    db: &Db,
    id: &str,
    patch: &ScriptPatch,
    now: Timestamp,
) -> Result<Option<ScriptRow>, StoreError> {
    // For nullable values, a flag or another value says whether the update sets them.
    let sql = "UPDATE scripts SET script_type = coalesce($2, script_type), body = coalesce($3, body), \
                   outbound_xrpcs = CASE WHEN $3 IS NULL THEN outbound_xrpcs ELSE $4 END, \
                   description = CASE WHEN $5 THEN $6 ELSE description END, updated_at = $7 \
               WHERE id = $1";
    let select = select!("WHERE id = $1");
    let (body, outbound) = match &patch.body {
        Some((body, outbound)) => (Some(body), outbound.as_ref().map(|list| to_json_text(list))),
        None => (None, None),
    };
    Ok(in_transaction!(db, |tx| {
        if let Some(body) = body {
            sqlx::query(END_ROLLOUT).bind(id).bind(body).bind(now).execute(&mut *tx).await?;
        }
        sqlx::query(sql)
            .bind(id)
            .bind(&patch.script_type)
            .bind(body)
            .bind(outbound)
            .bind(patch.description.is_set())
            .bind(patch.description.value())
            .bind(now)
            .execute(&mut *tx)
            .await?;
        check_base!(tx, Subject::Script, id, patch.based_on);
        add_revision!(tx, ADD_SAVED, id, &patch.saved_by, now);
        sqlx::query_as(select).bind(id).fetch_optional(&mut *tx).await?
    }))
}

/// Removes what belongs to a script that is deleted. Parameter: its id.
pub(super) const DROP_WITH_SCRIPT: [&str; 5] =
    [DROP_SCHEDULE, DROP_ROLLOUT[0], DROP_ROLLOUT[1], DROP_RECORDING[0], DROP_RECORDING[1]];

/// Removes a script within a transaction: `false` when there is none.
macro_rules! remove {
    ($tx:ident, $id:expr, $deleted_by:expr, $now:expr) => {{
        let id: &str = $id;
        let delete = sqlx::query("DELETE FROM scripts WHERE id = $1").bind(id);
        let removed = delete.execute(&mut *$tx).await?.rows_affected() > 0;
        if removed {
            for sql in $crate::store::scripts::DROP_WITH_SCRIPT {
                sqlx::query(sql).bind(id).execute(&mut *$tx).await?;
            }
            $crate::store::scripts::add_revision!(
                $tx,
                $crate::store::script_revisions::ADD_DELETED,
                id,
                $deleted_by,
                $now
            );
            let drop_deleted = sqlx::query($crate::store::script_revisions::DROP_DELETED);
            drop_deleted.bind($crate::store::script_revisions::MAX_DELETED).execute(&mut *$tx).await?;
        }
        removed
    }};
}
pub(super) use remove;

/// `false` when there is no such script. Its history stays, with a revision for the deletion.
pub async fn delete(db: &Db, id: &str, deleted_by: Option<&str>, now: Timestamp) -> Result<bool, StoreError> {
    Ok(in_transaction!(db, |tx| { remove!(tx, id, deleted_by, now) }))
}
