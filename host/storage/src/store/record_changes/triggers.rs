//! Creates and drops the triggers that note changes, so that the records of other collections cost nothing (ADR 165).

use std::time::Duration;

use sqlx::AssertSqlSafe;

use belvedere_protocol::atproto::Nsid;

use crate::store::{Db, Postgres, Sqlite, StoreError, intern};

/// Attempts to lock the tables of records on PostgreSQL. Writes that begin meanwhile wait behind each.
const ATTEMPTS: u32 = 50;

/// Time between two attempts, in which the waiting writes end.
const PAUSE: Duration = Duration::from_millis(100);

const NAMES: [&str; 3] = ["record_changes_created", "record_changes_updated", "record_changes_deleted"];

/// Lets the changes of exactly these collections be noted, from the next transaction on. Does nothing if they are already.
///
/// # Errors
/// When the database fails, or when long transactions do not let PostgreSQL lock the records.
pub async fn follow(db: &Db, collections: &[Nsid]) -> Result<(), StoreError> {
    let mut ids: Vec<i64> = if collections.is_empty() {
        Vec::new()
    } else {
        intern::collections(db, collections.iter()).await?.values().map(|collection| collection.id).collect()
    };
    ids.sort_unstable();
    ids.dedup();
    match db {
        Db::Sqlite(db) => sqlite(db, &list(&ids)).await,
        Db::Postgres(db) => {
            let mut attempt = 1;
            loop {
                match postgres(db, &list(&ids)).await {
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

fn list(ids: &[i64]) -> String {
    ids.iter().map(i64::to_string).collect::<Vec<_>>().join(",")
}

/// The triggers of SQLite, with their ids in the texts: the condition of another collection's row is a comparison.
fn sqlite_triggers(ids: &str) -> [String; 3] {
    let trigger = |name: &str, event: &str, row: &str, condition: &str, action: u8, content: [String; 3]| {
        let [size, cid, record] = content;
        format!(
            "CREATE TRIGGER {name} AFTER {event} ON records WHEN {row}.collection_id IN ({ids}){condition} BEGIN \
             INSERT INTO record_changes (collection_id, did_id, rkey, action, changed_at, size, bytes_before, cid, record) \
             VALUES ({row}.collection_id, {row}.did_id, {row}.rkey, {action}, CAST(unixepoch('subsec') * 1000000 AS INTEGER), \
             {size}, coalesce((SELECT c.bytes_before + c.size FROM record_changes c ORDER BY c.seq DESC LIMIT 1), 0), \
             {cid}, {record}); END"
        )
    };
    let of_row = || ["100 + octet_length(NEW.record)", "NEW.cid", "NEW.record"].map(str::to_owned);
    let of_none = ["100", "NULL", "NULL"].map(str::to_owned);
    let [created, updated, deleted] = NAMES;
    [
        trigger(created, "INSERT", "NEW", "", 0, of_row()),
        trigger(updated, "UPDATE OF record", "NEW", " AND NEW.rev <> OLD.rev", 1, of_row()),
        trigger(deleted, "DELETE", "OLD", "", 2, of_none),
    ]
}

async fn sqlite(db: &Sqlite, ids: &str) -> Result<(), StoreError> {
    let wanted = if ids.is_empty() { Vec::new() } else { sqlite_triggers(ids).to_vec() };
    let sql = "SELECT sql FROM sqlite_master WHERE type = 'trigger' AND name IN ($1, $2, $3)";
    let [created, updated, deleted] = NAMES;
    let query = sqlx::query_scalar(sql).bind(created).bind(updated).bind(deleted);
    let mut present: Vec<String> = query.fetch_all(&db.reader).await?;
    present.sort_unstable();
    let mut sorted = wanted.clone();
    sorted.sort_unstable();
    if present == sorted {
        return Ok(());
    }
    let mut tx = db.writer.begin_with("BEGIN IMMEDIATE").await?;
    for name in NAMES {
        sqlx::query(AssertSqlSafe(format!("DROP TRIGGER IF EXISTS {name}"))).execute(&mut *tx).await?;
    }
    for trigger in wanted {
        sqlx::query(AssertSqlSafe(trigger)).execute(&mut *tx).await?;
    }
    tx.commit().await?;
    Ok(())
}

/// The ids are the argument of the triggers, so that the catalog says which there are.
async fn postgres(db: &Postgres, ids: &str) -> Result<(), StoreError> {
    let present = "SELECT coalesce(min(encode(tgargs, 'escape')), '') FROM pg_trigger \
         WHERE tgrelid = 'records'::regclass AND tgname = $1";
    let wanted = if ids.is_empty() { String::new() } else { format!("{ids}\\000") };
    let found: String = sqlx::query_scalar(present).bind(NAMES[0]).fetch_one(db.reader()).await?;
    if found == wanted {
        return Ok(());
    }
    let mut tx = db.writer().begin().await?;
    // Another host may do the same: "triggers".
    sqlx::query("SELECT pg_advisory_xact_lock(x'7472696767657273'::bigint)").execute(&mut *tx).await?;
    let found: String = sqlx::query_scalar(present).bind(NAMES[0]).fetch_one(&mut *tx).await?;
    if found == wanted {
        return Ok(());
    }
    sqlx::query("SET LOCAL lock_timeout = '200ms'").execute(&mut *tx).await?;
    for name in NAMES {
        let sql = format!("DROP TRIGGER IF EXISTS {name} ON records");
        sqlx::query(AssertSqlSafe(sql)).execute(&mut *tx).await?;
    }
    if !ids.is_empty() {
        let [created, updated, deleted] = NAMES;
        for (name, event, condition) in [
            (created, "INSERT", format!("NEW.collection_id IN ({ids})")),
            (updated, "UPDATE OF record", format!("NEW.collection_id IN ({ids}) AND NEW.rev <> OLD.rev")),
            (deleted, "DELETE", format!("OLD.collection_id IN ({ids})")),
        ] {
            let sql = format!(
                "CREATE CONSTRAINT TRIGGER {name} AFTER {event} ON records DEFERRABLE INITIALLY DEFERRED \
                 FOR EACH ROW WHEN ({condition}) EXECUTE FUNCTION note_record_change('{ids}')"
            );
            sqlx::query(AssertSqlSafe(sql)).execute(&mut *tx).await?;
        }
    }
    tx.commit().await?;
    Ok(())
}
