//! Counts the links of many targets at once, and finds the links that one account has to them.

use belvedere_protocol::atproto::Did;
use belvedere_web::fair_share::Tenant;

use super::super::index::link_counts::{self, IS_COMPLETE, MANY};
use super::super::intern::{self, Collection};
use super::super::packed::Packed;
use super::super::partitions::{PerPartition, Tables};
use super::super::read_cost::ReadCost;
use super::super::reads::Reads;
use super::super::select::{Dialect, PostgresDialect, SqliteDialect, is_visible};
use super::super::types::to_json_text;
use super::super::{Db, StoreError};
use crate::query::Links;

/// Targets of one call, at most.
pub const MAX_TARGETS: usize = 100;

/// Kinds of links of one call, at most.
pub const MAX_KINDS: usize = 10;

/// The condition that a link `f` is at the path `$3`, or anywhere if that is empty.
fn at_path<D: Dialect>() -> String {
    format!("($3 = '' OR {})", D::has_word("f.paths", "$3"))
}

/// The account of a link `f` whose record was not read again yet is that of the record.
pub(super) fn account(Tables { records, .. }: &Tables, collection: &str) -> String {
    format!(
        "coalesce(f.did_id, (SELECT r.did_id FROM {records} r WHERE r.id = f.record_id AND r.collection_id = {collection}))"
    )
}

/// Whether writers count the target `v.value`.
fn is_counted(Tables { link_counts, .. }: &Tables) -> String {
    format!(
        "EXISTS (SELECT 1 FROM {link_counts} c WHERE c.target = v.value AND c.collection_id = $2 AND c.path = '')"
    )
}

const SQLITE_TARGETS: &str = "json_each($1) v";
const POSTGRES_TARGETS: &str = "unnest($1::text[]) WITH ORDINALITY v (value, key)";

/// The links of targets that have few, in a statement that counts links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Few {
    Counted,
    /// 0 for each, for who looks through them.
    LeftOut,
}

/// Two numbers of up to [`MANY`] are one: the first times this, and the second.
const PAIR: i64 = MANY + 1;

/// The first links of a target are looked at once: for how many they are, and how many of them are visible. Most targets have no
/// more.
fn count_sql<D: Dialect>(tables: &Tables, targets: &str, few: Few) -> String {
    let (refs, counts, is_counted) = (&tables.record_refs, &tables.link_counts, is_counted(tables));
    let is_shown = format!("{} AND {}", at_path::<D>(), is_visible(&account(tables, "$2")));
    let (is_shown_early, few) = match few {
        Few::Counted => (is_shown.as_str(), format!("t.early < {MANY} * {PAIR} THEN t.early % {PAIR}")),
        Few::LeftOut => ("FALSE", "t.kind = 'few' THEN 0".to_owned()),
    };
    format!(
        "WITH e AS MATERIALIZED (SELECT v.key, v.value, CASE WHEN {is_counted} THEN -1 ELSE \
             (SELECT count(*) * {PAIR} + coalesce(sum(CASE WHEN {is_shown_early} THEN 1 ELSE 0 END), 0) \
                 FROM (SELECT f.record_id, f.did_id, f.paths FROM {refs} f \
                     WHERE f.target = v.value AND f.collection_id = $2 LIMIT {MANY}) f) END AS early FROM {targets}), \
         t AS (SELECT e.*, CASE WHEN early < 0 THEN 'counted' WHEN early >= {MANY} * {PAIR} AND {IS_COMPLETE} THEN 'many' \
             ELSE 'few' END AS kind FROM e) \
         SELECT string_agg(links || ' ' || kind || ' ', '') FROM (\
             SELECT t.kind, CASE WHEN t.kind = 'counted' THEN coalesce((SELECT c.links - c.hidden FROM {counts} c \
                     WHERE c.target = t.value AND c.collection_id = $2 AND c.path = $3), 0) \
                 WHEN {few} ELSE (SELECT count(*) FROM {refs} f \
                     WHERE f.target = t.value AND f.collection_id = $2 AND {is_shown}) END AS links \
             FROM t ORDER BY t.key) numbers"
    )
}

static COUNT: [PerPartition<String>; 2] = [
    PerPartition::new(|tables| count_sql::<SqliteDialect>(tables, SQLITE_TARGETS, Few::Counted)),
    PerPartition::new(|tables| count_sql::<PostgresDialect>(tables, POSTGRES_TARGETS, Few::Counted)),
];

static COUNT_WITHOUT_FEW: [PerPartition<String>; 2] = [
    PerPartition::new(|tables| count_sql::<SqliteDialect>(tables, SQLITE_TARGETS, Few::LeftOut)),
    PerPartition::new(|tables| count_sql::<PostgresDialect>(tables, POSTGRES_TARGETS, Few::LeftOut)),
];

/// The links of a target with few are looked through. Those of a target with many are found among the records of the account.
fn of_account_sql<D: Dialect>(tables: &Tables, targets: &str) -> String {
    let Tables { records, record_refs, .. } = tables;
    let (account, at_path, is_counted) = (account(tables, "$2"), at_path::<D>(), is_counted(tables));
    format!(
        "WITH t AS MATERIALIZED (SELECT v.key, v.value, {is_counted} AS is_counted FROM {targets}), \
         a AS MATERIALIZED (SELECT id FROM dids WHERE did = $4 AND status = 0), \
         own AS MATERIALIZED (SELECT f.target, max(f.record_id) AS id FROM a CROSS JOIN {records} r CROSS JOIN {record_refs} f \
             WHERE EXISTS (SELECT 1 FROM t WHERE t.is_counted) AND r.collection_id = $2 AND r.did_id = a.id \
                 AND f.record_id = r.id AND {at_path} \
                 AND f.target IN (SELECT t.value FROM t WHERE t.is_counted) GROUP BY f.target) \
         SELECT string_agg(coalesce(rkey, '') || ' ', '') FROM (\
             SELECT (SELECT r.rkey FROM {records} r WHERE r.collection_id = $2 AND r.id = CASE WHEN t.is_counted \
                 THEN (SELECT own.id FROM own WHERE own.target = t.value) \
                 ELSE (SELECT max(f.record_id) FROM {record_refs} f CROSS JOIN a WHERE f.target = t.value \
                     AND f.collection_id = $2 AND {at_path} AND {account} = a.id) END) AS rkey \
             FROM t ORDER BY t.key) rkeys"
    )
}

static OF_ACCOUNT: [PerPartition<String>; 2] = [
    PerPartition::new(|tables| of_account_sql::<SqliteDialect>(tables, SQLITE_TARGETS)),
    PerPartition::new(|tables| of_account_sql::<PostgresDialect>(tables, POSTGRES_TARGETS)),
];

/// The number of visible records with such a link to each target, in the order of the targets. Exact: triggers count what
/// has many, from the first time on that it is counted here.
///
/// # Errors
/// [`StoreError::Busy`].
pub async fn count(
    db: &Db,
    links: &Links,
    targets: &[String],
    tenant: &Tenant,
) -> Result<Vec<u64>, StoreError> {
    let counts = numbers(db, links, Few::Counted, targets, tenant).await?;
    Ok(counts.into_iter().map(|number| number.links).collect())
}

/// The links to a target.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Number {
    pub(super) links: u64,
    /// Whether the target has few links of the collection, at any path, so that they can be looked through.
    pub(super) are_few: bool,
}

/// The numbers of [`count`].
pub(super) async fn numbers(
    db: &Db,
    links: &Links,
    few: Few,
    targets: &[String],
    tenant: &Tenant,
) -> Result<Vec<Number>, StoreError> {
    let Some(collection) = intern::collection(db, &links.collection).await? else {
        return Ok(vec![Number::default(); targets.len()]);
    };
    let sql = match few {
        Few::Counted => &COUNT,
        Few::LeftOut => &COUNT_WITHOUT_FEW,
    };
    let permit = db.read_permit(tenant).await?;
    let found = read(db, (sql, collection), links, targets, None, false).await?;
    // Others may read while this waits for the writer.
    drop(permit);
    let counts: Vec<(i64, String)> =
        Packed::new(found).rows(|row| Some((row.field()?.parse().ok()?, row.field()?.to_owned())))?;
    for (target, _) in targets.iter().zip(&counts).filter(|(_, (_, kind))| kind == "many") {
        if let Err(error) = link_counts::begin_one(db, collection, target).await {
            tracing::warn!(%error, "a target with many links is not counted yet");
        }
    }
    let number = |(links, kind): (i64, String)| Number { links: links.max(0) as u64, are_few: kind == "few" };
    Ok(counts.into_iter().map(number).collect())
}

/// The newest record with such a link to each target among those of an account, by its rkey, in the order of the targets.
///
/// # Errors
/// [`StoreError::Busy`], and [`StoreError::TooSlow`] for a scan.
pub async fn of_account(
    db: &Db,
    account: &Did,
    links: &Links,
    targets: &[String],
    tenant: &Tenant,
) -> Result<Vec<Option<String>>, StoreError> {
    let Some(collection) = intern::collection(db, &links.collection).await? else {
        return Ok(vec![None; targets.len()]);
    };
    let cost = async {
        let scans = passes_over_many(db, collection, account, targets).await?;
        Ok(ReadCost::Few.or_many(scans))
    };
    let read = |scans| read(db, (&OF_ACCOUNT, collection), links, targets, Some(account), scans);
    let found = db.read_or_scan(tenant, cost, read(false), read(true)).await?;
    let rkey = |text: &str| Some(text.to_owned()).filter(|rkey| !rkey.is_empty());
    Packed::new(found).rows(|row| row.field().map(rkey))
}

/// The records of an account from which on looking through them is a scan.
const MANY_RECORDS: i64 = 5_000;

/// Whether a target has many links and the account many records.
static PASSES_OVER_MANY: PerPartition<[String; 2]> = PerPartition::new(
    |tables @ Tables { records, .. }| {
        let is_counted = is_counted(tables);
        [SQLITE_TARGETS, "unnest($1::text[]) v (value)"].map(|targets| {
        format!(
            "SELECT EXISTS (SELECT 1 FROM {targets} WHERE {is_counted}) AND (SELECT count(*) FROM (SELECT 1 FROM {records} \
                 WHERE collection_id = $2 AND did_id = (SELECT id FROM dids WHERE did = $3) LIMIT {MANY_RECORDS}) own) = {MANY_RECORDS}"
        )
    })
    },
);

async fn passes_over_many(
    db: &Db,
    collection: Collection,
    account: &Did,
    targets: &[String],
) -> Result<bool, StoreError> {
    let [sqlite, postgres] = PASSES_OVER_MANY.of(collection.partition);
    macro_rules! passes {
        ($sql:expr, $targets:expr, $db:expr) => {{
            let query = sqlx::query_scalar($sql).bind($targets).bind(collection.id).bind(account.as_str());
            query.fetch_one($db.pool_of(collection.partition, Reads::Hot).reads()).await?
        }};
    }
    Ok(match db {
        Db::Sqlite(db) => passes!(*sqlite, to_json_text(targets), db),
        Db::Postgres(db) => passes!(*postgres, targets, db),
    })
}

/// The packed answers for all targets, read on the pool of scans, or of reads by an index.
async fn read(
    db: &Db,
    ([sqlite, postgres], collection): (&'static [PerPartition<String>; 2], Collection),
    links: &Links,
    targets: &[String],
    account: Option<&Did>,
    scans: bool,
) -> Result<String, StoreError> {
    let path = links.path.as_deref().unwrap_or_default();
    macro_rules! text {
        ($sql:expr, $targets:expr, $db:expr) => {{
            let query = sqlx::query_scalar(*$sql.of(collection.partition))
                .bind($targets)
                .bind(collection.id)
                .bind(path);
            let query = match account {
                Some(account) => query.bind(account.as_str()),
                None => query,
            };
            let pool = $db.pool_of(collection.partition, Reads::of_scan(scans));
            query.fetch_one(pool.reads()).await?
        }};
    }
    let text: Option<String> = match db {
        Db::Sqlite(db) => text!(sqlite, to_json_text(targets), db),
        Db::Postgres(db) => text!(postgres, targets, db),
    };
    Ok(text.unwrap_or_default())
}
