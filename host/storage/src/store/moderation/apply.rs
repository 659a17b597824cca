//! Makes and lifts decisions: the row, and the change of the record or the account, in one transaction.

use sqlx::AssertSqlSafe;

use super::{Action, COLUMNS, Decision, ModerationRow, Subject, get};
use crate::store::counts::{AccountFlip, Changes, Counting as _};
use crate::store::index::moderated::{ModeratedRecord, Moderation as _};
use crate::store::intern::{self, Collection};
use crate::store::{Db, StoreError, on, only_row};
use belvedere_base::clock::Timestamp;

/// The statuses of moderated accounts in `dids.status`; those of the network are smaller.
const TAKEN_DOWN_HERE: i16 = 5;
const HIDDEN_HERE: i16 = 6;

/// The result of [`moderate`].
#[derive(Clone, Debug)]
pub enum Moderated {
    Made(ModerationRow),
    /// The same decision was in force already.
    Same(ModerationRow),
    /// Nothing changed: this decision of another author is in force, and would have to be named.
    Other(ModerationRow),
}

/// The result of [`lift`].
#[derive(Clone, Debug)]
pub struct Lifted {
    pub row: ModerationRow,
    /// Whether it was in force until now.
    pub was_active: bool,
}

/// The subject with its ids in the database.
struct Target<'a> {
    subject: &'a Subject,
    did_id: i64,
    /// That of a record.
    collection: Option<Collection>,
}

impl<'a> Target<'a> {
    async fn of(db: &Db, subject: &'a Subject) -> Result<Self, StoreError> {
        let unknown = || StoreError::Corrupt("an id of a moderated subject".to_owned());
        let did_ids = intern::did_ids(db, std::iter::once(subject.did())).await?;
        let did_id = *did_ids.get(subject.did()).ok_or_else(unknown)?;
        let collection = match subject {
            Subject::Account(_) => None,
            Subject::Record(uri) => {
                let found = intern::collections(db, std::iter::once(&uri.collection)).await?;
                Some(*found.get(&uri.collection).ok_or_else(unknown)?)
            }
        };
        Ok(Self { subject, did_id, collection })
    }

    fn record(&self) -> Option<ModeratedRecord<'_>> {
        match (self.subject, self.collection) {
            (Subject::Record(uri), Some(collection)) => {
                Some(ModeratedRecord { uri, collection, did_id: self.did_id })
            }
            _ => None,
        }
    }
}

const SET_STATUS: &str = "UPDATE dids SET network_status = coalesce(network_status, status), status = $2, \
     status_changed_at = $3 WHERE id = $1";
const RESET_STATUS: &str = "UPDATE dids SET status = network_status, network_status = NULL, status_changed_at = $2 \
     WHERE id = $1 AND network_status IS NOT NULL";
const IS_HIDDEN: &str = "SELECT status <> 0 FROM dids WHERE id = $1";
/// The same, and keeps another host from changing the status until the transaction ends: what is counted is the difference.
const LOCK_STATUS: &str = "UPDATE dids SET status = status WHERE id = $1 RETURNING status <> 0";

/// Changes the status of an account by a statement, and counts its records.
macro_rules! set_status {
    ($db:ident, $tx:ident, $did_id:expr, $statement:expr) => {
        $tx.announce_counting().await?;
        let was_hidden = sqlx::query_scalar(LOCK_STATUS).bind($did_id).fetch_one(&mut *$tx).await?;
        $statement.execute(&mut *$tx).await?;
        let is_hidden = sqlx::query_scalar(IS_HIDDEN).bind($did_id).fetch_one(&mut *$tx).await?;
        let flip = AccountFlip::of($did_id, was_hidden, is_hidden);
        $tx.count_accounts(flip.as_slice(), &$db.ids().parts()).await?;
        $tx.count(Changes::default()).await?;
    };
}

/// Makes a decision. It replaces one that is in force on the subject: that of its own author, or the one that it names.
pub async fn moderate(db: &Db, decision: &Decision, now: Timestamp) -> Result<Moderated, StoreError> {
    let target = Target::of(db, &decision.subject).await?;
    let subject = decision.subject.to_string();
    let find = format!("SELECT {COLUMNS} FROM moderation WHERE subject = $1 AND lifted_at IS NULL");
    let replace = "UPDATE moderation SET lifted_at = $2, lifted_by = $3, lift_reason = 'replaced' \
                   WHERE subject = $1 AND lifted_at IS NULL";
    let insert = format!(
        "INSERT INTO moderation (subject, action, reason, created_by, created_at, expires_at) \
         VALUES ($1, $2, $3, $4, $5, $6) RETURNING {COLUMNS}"
    );
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        tx.lock(decision.subject.did()).await?;
        let query = sqlx::query_as(AssertSqlSafe(find)).bind(&subject);
        let before: Option<ModerationRow> = only_row(query.fetch_all(&mut *tx).await?);
        if let Some(row) = before {
            if decision.is_of(&row) {
                return Ok(Moderated::Same(row));
            }
            if !decision.may_replace(&row, now) {
                return Ok(Moderated::Other(row));
            }
        }
        sqlx::query(replace).bind(&subject).bind(now).bind(&decision.by).execute(&mut *tx).await?;
        let query = sqlx::query_as(AssertSqlSafe(insert)).bind(&subject).bind(decision.action.as_str());
        let query = query.bind(&decision.reason).bind(&decision.by).bind(now).bind(decision.expires_at);
        let row = query.fetch_one(&mut *tx).await?;
        if let Some(record) = target.record() {
            let mut changes = Changes::default();
            tx.begin_counting().await?;
            tx.hide(record, decision.action == Action::Hide, &mut changes).await?;
            tx.count(changes).await?;
        } else {
            let status = if decision.action == Action::Hide { HIDDEN_HERE } else { TAKEN_DOWN_HERE };
            set_status!(
                db,
                tx,
                target.did_id,
                sqlx::query(SET_STATUS).bind(target.did_id).bind(status).bind(now)
            );
        }
        tx.commit().await?;
        Ok(Moderated::Made(row))
    })
}

/// Lifts a decision: the record or the account is again as the network has it. `by`: `None` when it has expired. `None` when
/// there is no such decision.
pub async fn lift(
    db: &Db,
    id: i64,
    by: Option<&str>,
    reason: Option<&str>,
    now: Timestamp,
) -> Result<Option<Lifted>, StoreError> {
    let Some(row) = get(db, id).await? else { return Ok(None) };
    if row.lifted_at.is_some() {
        return Ok(Some(Lifted { row, was_active: false }));
    }
    let subject = Subject::parse(&row.subject)
        .ok_or_else(|| StoreError::Corrupt(format!("the subject of moderation {id}")))?;
    let target = Target::of(db, &subject).await?;
    let sql = format!(
        "UPDATE moderation SET lifted_at = $2, lifted_by = $3, lift_reason = $4 WHERE id = $1 AND lifted_at IS NULL \
         RETURNING {COLUMNS}"
    );
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        tx.lock(subject.did()).await?;
        let query = sqlx::query_as(AssertSqlSafe(sql)).bind(id).bind(now).bind(by).bind(reason);
        let Some(row) = only_row(query.fetch_all(&mut *tx).await?) else {
            drop(tx);
            // Another request has lifted it meanwhile.
            return Ok(get(db, id).await?.map(|row| Lifted { row, was_active: false }));
        };
        if let Some(record) = target.record() {
            let mut changes = Changes::default();
            tx.begin_counting().await?;
            tx.restore(record, now, &mut changes).await?;
            tx.count(changes).await?;
        } else {
            set_status!(db, tx, target.did_id, sqlx::query(RESET_STATUS).bind(target.did_id).bind(now));
        }
        tx.commit().await?;
        Ok(Some(Lifted { row, was_active: true }))
    })
}
