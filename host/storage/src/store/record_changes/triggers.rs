//! Creates and drops the triggers that note changes, so that the records of other collections cost nothing (ADR 165).

use std::time::Duration;

use sqlx::AssertSqlSafe;

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Nsid;

use crate::store::counts::postgres::LOCK;
use crate::store::{Db, Postgres, Sqlite, StoreError, intern, on};

/// Attempts to lock the tables of records on PostgreSQL. Writes that begin meanwhile wait behind each.
const ATTEMPTS: u32 = 50;

/// Time between two attempts, in which the waiting writes end.
const PAUSE: Duration = Duration::from_millis(100);

const NAMES: [&str; 3] = ["record_changes_created", "record_changes_updated", "record_changes_deleted"];

/// The collections whose changes are noted, with whether a subscription shows them. They are read from the database in the
/// transaction that replaces the triggers: another host may know of other lexicons.
const FOLLOWED: &str = "SELECT c.id, CAST(max(f.is_shown) AS BIGINT) FROM collections c JOIN ( \
         SELECT t.id AS collection_id, 1 AS is_shown FROM lexicons l JOIN collections t ON t.nsid = l.target_collection \
             WHERE l.lexicon_type = 'subscription' \
         UNION ALL SELECT w.collection_id, 0 FROM watched_collections w WHERE w.used_at >= $1 \
     ) f ON f.collection_id = c.id GROUP BY c.id ORDER BY c.id";

/// The ids of the collections whose changes are noted, separated by commas.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Followed {
    /// Those whose records are kept with their changes.
    shown: String,
    all: String,
}

impl Followed {
    fn of(rows: &[(i64, i64)]) -> Self {
        let list = |rows: &mut dyn Iterator<Item = &(i64, i64)>| {
            rows.map(|(id, _)| id.to_string()).collect::<Vec<_>>().join(",")
        };
        Self {
            shown: list(&mut rows.iter().filter(|(_, is_shown)| *is_shown == 1)),
            all: list(&mut rows.iter()),
        }
    }
}

/// Lets exactly the changes be noted of the collections that subscriptions show, or that live queries have read since
/// `watched_since`: from the next transaction on. Does nothing if they are already.
///
/// # Errors
/// When the database fails, or when long transactions do not let PostgreSQL lock the records.
pub async fn follow(db: &Db, watched_since: Timestamp) -> Result<(), StoreError> {
    let sql = "SELECT DISTINCT target_collection FROM lexicons \
               WHERE lexicon_type = 'subscription' AND target_collection IS NOT NULL";
    let targets: Vec<String> = on!(db, reader, |pool| sqlx::query_scalar(sql).fetch_all(pool).await)?;
    let targets: Vec<Nsid> =
        targets.iter().filter_map(|target| Nsid::try_from(target.as_str()).ok()).collect();
    if !targets.is_empty() {
        intern::collections(db, targets.iter()).await?;
    }
    match db {
        Db::Sqlite(db) => sqlite(db, watched_since).await,
        Db::Postgres(db) if db.ids.in_shards() => in_shards(db, watched_since).await,
        Db::Postgres(db) => {
            let mut attempt = 1;
            loop {
                match postgres(db, watched_since).await {
                    Err(error) if attempt < ATTEMPTS => {
                        tracing::debug!(%error, "the records can't be locked yet");
                        attempt += 1;
                        tokio::time::sleep(PAUSE).await;
                    }
                    done => return done,
                }
            }
        }
    }
}

/// The triggers of SQLite, with their ids in the texts: the condition of another collection's row is a comparison.
fn sqlite_triggers(followed: &Followed) -> Vec<String> {
    let Followed { shown, all } = followed;
    if all.is_empty() {
        return Vec::new();
    }
    let trigger = |name: &str, event: &str, row: &str, condition: &str, action: u8, content: [String; 3]| {
        let [size, cid, record] = content;
        format!(
            "CREATE TRIGGER {name} AFTER {event} ON records WHEN {row}.collection_id IN ({all}){condition} BEGIN \
             INSERT INTO record_changes (collection_id, did_id, rkey, action, changed_at, size, bytes_before, cid, record) \
             VALUES ({row}.collection_id, {row}.did_id, {row}.rkey, {action}, CAST(unixepoch('subsec') * 1000000 AS INTEGER), \
             {size}, coalesce((SELECT c.bytes_before + c.size FROM record_changes c ORDER BY c.seq DESC LIMIT 1), 0), \
             {cid}, {record}); END"
        )
    };
    let if_shown = |value: &str, other: &str| {
        format!("CASE WHEN NEW.collection_id IN ({shown}) THEN {value} ELSE {other} END")
    };
    let of_row = || {
        [
            if_shown("100 + octet_length(NEW.record)", "100"),
            if_shown("NEW.cid", "NULL"),
            if_shown("NEW.record", "NULL"),
        ]
    };
    let of_none = ["100", "NULL", "NULL"].map(str::to_owned);
    let [created, updated, deleted] = NAMES;
    vec![
        trigger(created, "INSERT", "NEW", "", 0, of_row()),
        trigger(deleted, "DELETE", "OLD", "", 2, of_none),
        trigger(updated, "UPDATE OF record", "NEW", " AND NEW.rev <> OLD.rev", 1, of_row()),
    ]
}

async fn sqlite(db: &Sqlite, watched_since: Timestamp) -> Result<(), StoreError> {
    let sql = "SELECT sql FROM sqlite_master WHERE type = 'trigger' AND name IN ($1, $2, $3) ORDER BY name";
    let [created, updated, deleted] = NAMES;
    let query = sqlx::query_scalar(sql).bind(created).bind(updated).bind(deleted);
    let present: Vec<String> = query.fetch_all(&db.reader).await?;
    let rows: Vec<(i64, i64)> = sqlx::query_as(FOLLOWED).bind(watched_since).fetch_all(&db.reader).await?;
    if present == sqlite_triggers(&Followed::of(&rows)) {
        return Ok(());
    }
    let mut tx = db.writer.begin_with("BEGIN IMMEDIATE").await?;
    let rows: Vec<(i64, i64)> = sqlx::query_as(FOLLOWED).bind(watched_since).fetch_all(&mut *tx).await?;
    for name in NAMES {
        sqlx::query(AssertSqlSafe(format!("DROP TRIGGER IF EXISTS {name}"))).execute(&mut *tx).await?;
    }
    for trigger in sqlite_triggers(&Followed::of(&rows)) {
        sqlx::query(AssertSqlSafe(trigger)).execute(&mut *tx).await?;
    }
    tx.commit().await?;
    Ok(())
}

/// The ids are the arguments of the triggers, so that the catalog says which there are.
async fn postgres(db: &Postgres, watched_since: Timestamp) -> Result<(), StoreError> {
    let present = "SELECT coalesce(min(encode(tgargs, 'escape')), '') FROM pg_trigger \
         WHERE tgrelid = 'records'::regclass AND tgname = $1";
    let is_current = |found: &str, Followed { shown, all }: &Followed| {
        let wanted = if all.is_empty() { String::new() } else { format!("{shown}\\000{all}\\000") };
        found == wanted
    };
    let rows: Vec<(i64, i64)> = sqlx::query_as(FOLLOWED).bind(watched_since).fetch_all(db.reader()).await?;
    let found: String = sqlx::query_scalar(present).bind(NAMES[0]).fetch_one(db.reader()).await?;
    if is_current(&found, &Followed::of(&rows)) {
        return Ok(());
    }
    let mut tx = db.writer().begin().await?;
    // Another host may do the same: "triggers".
    sqlx::query("SELECT pg_advisory_xact_lock(x'7472696767657273'::bigint)").execute(&mut *tx).await?;
    let rows: Vec<(i64, i64)> = sqlx::query_as(FOLLOWED).bind(watched_since).fetch_all(&mut *tx).await?;
    let followed = Followed::of(&rows);
    let found: String = sqlx::query_scalar(present).bind(NAMES[0]).fetch_one(&mut *tx).await?;
    if is_current(&found, &followed) {
        return Ok(());
    }
    sqlx::query("SET LOCAL lock_timeout = '200ms'").execute(&mut *tx).await?;
    for name in NAMES {
        let sql = format!("DROP TRIGGER IF EXISTS {name} ON records");
        sqlx::query(AssertSqlSafe(sql)).execute(&mut *tx).await?;
    }
    let Followed { shown, all } = followed;
    if !all.is_empty() {
        let [created, updated, deleted] = NAMES;
        for (name, event, condition) in [
            (created, "INSERT", format!("NEW.collection_id IN ({all})")),
            (updated, "UPDATE OF record", format!("NEW.collection_id IN ({all}) AND NEW.rev <> OLD.rev")),
            (deleted, "DELETE", format!("OLD.collection_id IN ({all})")),
        ] {
            let sql = format!(
                "CREATE CONSTRAINT TRIGGER {name} AFTER {event} ON records DEFERRABLE INITIALLY DEFERRED \
                 FOR EACH ROW WHEN ({condition}) EXECUTE FUNCTION note_record_change('{shown}', '{all}')"
            );
            sqlx::query(AssertSqlSafe(sql)).execute(&mut *tx).await?;
        }
    }
    tx.commit().await?;
    Ok(())
}

/// In shards writers note the changes, of the collections in a table ([`change_notes`](crate::store::change_notes)).
async fn in_shards(db: &Postgres, watched_since: Timestamp) -> Result<(), StoreError> {
    let wanted =
        |rows: Vec<(i64, i64)>| rows.into_iter().map(|(id, shown)| (id, shown == 1)).collect::<Vec<_>>();
    let present = "SELECT collection_id, is_shown FROM followed_collections ORDER BY collection_id";
    let found: Vec<(i64, bool)> = sqlx::query_as(present).fetch_all(db.reader()).await?;
    let rows = sqlx::query_as(FOLLOWED).bind(watched_since).fetch_all(db.reader()).await?;
    if wanted(rows) == found {
        return Ok(());
    }
    let mut tx = db.writer().begin().await?;
    // Waits for the transactions that write records, and keeps others from beginning.
    sqlx::query(LOCK).execute(&mut *tx).await?;
    let rows = sqlx::query_as(FOLLOWED).bind(watched_since).fetch_all(&mut *tx).await?;
    let (ids, shown): (Vec<i64>, Vec<bool>) = wanted(rows).into_iter().unzip();
    sqlx::query("DELETE FROM followed_collections").execute(&mut *tx).await?;
    let insert = "INSERT INTO followed_collections (collection_id, is_shown) SELECT * FROM UNNEST ($1::bigint[], $2::boolean[])";
    sqlx::query(insert).bind(ids).bind(shown).execute(&mut *tx).await?;
    tx.commit().await?;
    Ok(())
}
