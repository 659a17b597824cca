//! Splits a shard: its largest collection keeps the tables, and all others get tables of their own, which may be on another node.
//!
//! Both are new shards with new numbers, and the old number is never used again. A host that does not know yet names tables that
//! are gone, so its statement fails ([`is_of_split`](crate::store::partitions::is_of_split)) instead of missing records.

use sqlx::PgConnection;

use super::tables::{self, Index, Renamed, Source, new};
use super::{ShardsError, cluster, one_at_a_time};
use crate::store::definitions::run;
use crate::store::fields::build;
use crate::store::partitions::{Partition, SHARD_NUMBERS, Tables, partition_number, shard_numbers};
use crate::store::{Db, Postgres};

/// A shard that is split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// The collection that keeps the tables.
    pub largest: String,
    /// The number of its shard, of which it is the only collection.
    pub own: u8,
    /// The number of the shard of all others.
    pub rest: u8,
    /// Those, with the numbers of their records.
    pub moved: Vec<(String, i64)>,
}

/// The parts that [`split`] would make of a shard.
///
/// # Errors
/// When there is no such shard, and when it has not two collections.
pub async fn plan_split(db: &Db, number: u8) -> Result<Split, ShardsError> {
    let mut connection = cluster(db).await?.pool.acquire().await?;
    Ok(Plan::of(&mut connection, number).await?.split)
}

/// Splits a shard in one transaction. Its reads go on until the last statements, its writes wait for the end. Hosts notice it within
/// seconds, and until then their statements on the shard fail.
///
/// # Errors
/// When the shard can't be split, and when a statement fails: then nothing has changed.
pub async fn split(db: &Db, number: u8) -> Result<Split, ShardsError> {
    let cluster = cluster(db).await?;
    // Citus builds an index on the node without a lock of the table here.
    let Some(lock) = build::lock(db).await? else { return Err(ShardsError::BuildingIndex(number)) };
    let done = split_locked(cluster, number).await;
    lock.release().await?;
    let (split, numbers) = done?;
    cluster.ids.set_shards(&numbers);
    Ok(split)
}

async fn split_locked(cluster: &Postgres, number: u8) -> Result<(Split, Vec<u8>), ShardsError> {
    let mut tx = cluster.pool.begin().await?;
    one_at_a_time(&mut tx).await?;
    // Statements that wait for this one must not wait for long.
    run(&mut tx, "SET LOCAL lock_timeout = '10s'".to_owned()).await?;
    let old = Partition::Shard(number).tables();
    if shard_numbers(&mut *tx).await?.contains(&number) {
        run(&mut tx, format!("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE", old.all().join(", "))).await?;
    }
    let plan = Plan::of(&mut tx, number).await?;
    wait_for_writes(&mut tx, number).await?;
    let Plan { split, live, largest, .. } = &plan;
    let rest = Partition::Shard(split.rest).tables();
    let moved = plan.moved_rows();
    let sources =
        std::array::from_fn(|at| Source { table: old.all()[at].to_owned(), rows: Some(moved[at].clone()) });
    let of_largest = format!("(collection_id = {largest})");
    let is_of_largest = |index: &Index| index.rows.as_ref() == Some(&of_largest);
    let made = tables::make(&mut tx, rest, sources, is_of_largest).await?;
    // References and reasons are found by the records, so these are last.
    for (table, rows) in old.all().iter().zip(&moved).rev() {
        run(&mut tx, format!("DELETE FROM {table} WHERE {rows}")).await?;
    }
    let others = live.iter().filter(|of| **of != number);
    let mut names: Vec<_> =
        others.map(|of| Partition::Shard(*of).tables().all().map(str::to_owned)).collect();
    names.extend([old.all().map(str::to_owned), rest.all().map(new)]);
    for view in tables::views(&names) {
        run(&mut tx, view).await?;
    }
    for statement in rename(&mut tx, old, split, &made).await? {
        run(&mut tx, statement).await?;
    }
    for statement in tables::partition_of() {
        run(&mut tx, statement).await?;
    }
    sqlx::query("INSERT INTO shard_splits (number, collection_id, own, rest) VALUES ($1, $2, $3, $4)")
        .bind(i16::from(number))
        .bind(largest)
        .bind(i16::from(split.own))
        .bind(i16::from(split.rest))
        .execute(&mut *tx)
        .await?;
    let numbers = shard_numbers(&mut *tx).await?;
    tx.commit().await?;
    Ok((plan.split, numbers))
}

/// A split before it is done.
struct Plan {
    split: Split,
    number: u8,
    /// The shards that there are.
    live: Vec<u8>,
    /// The id of the largest collection.
    largest: i64,
    /// The ids of all others.
    moved: Vec<i64>,
}

const COLLECTIONS: &str = concat!(
    "SELECT c.id, c.nsid FROM collections c WHERE ",
    partition_number!("c.id"),
    " = $1 ORDER BY c.nsid"
);

const RECORDS: &str = "SELECT collection_id, sum(records)::bigint FROM record_counts WHERE collection_id = ANY($1) GROUP BY collection_id";

impl Plan {
    async fn of(conn: &mut PgConnection, number: u8) -> Result<Self, ShardsError> {
        let live = shard_numbers(&mut *conn).await?;
        let last = *live.last().ok_or(ShardsError::NotInShards)?;
        if !live.contains(&number) {
            return Err(ShardsError::NoShard(number));
        }
        let mut found: Vec<(i64, String)> =
            sqlx::query_as(COLLECTIONS).bind(i32::from(number)).fetch_all(&mut *conn).await?;
        let ids: Vec<i64> = found.iter().map(|(id, _)| *id).collect();
        let counts: Vec<(i64, i64)> = sqlx::query_as(RECORDS).bind(ids).fetch_all(conn).await?;
        let records = |id: i64| counts.iter().find(|(of, _)| *of == id).map_or(0, |(_, records)| *records);
        found.sort_by_key(|(id, _)| std::cmp::Reverse(records(*id)));
        if found.len() < 2 {
            return Err(ShardsError::OneCollection(number));
        }
        let (own, rest) = (last + 1, last + 2);
        if rest >= SHARD_NUMBERS {
            return Err(ShardsError::NoNumber);
        }
        let (largest, name) = found.remove(0);
        let moved = found.iter().map(|(id, _)| *id).collect();
        let named = found.into_iter().map(|(id, nsid)| (nsid, records(id))).collect();
        Ok(Self { split: Split { largest: name, own, rest, moved: named }, number, live, largest, moved })
    }

    /// The conditions of the rows that are moved, in the order of the tables. Those of the first three are found by an index, because
    /// the largest collection has most of them.
    fn moved_rows(&self) -> [String; 5] {
        let ids: Vec<String> = self.moved.iter().map(ToString::to_string).collect();
        let of_moved = format!("collection_id IN ({})", ids.join(", "));
        let records = Partition::Shard(self.number).records();
        let by_record = format!("record_id IN (SELECT id FROM {records} WHERE {of_moved})");
        [of_moved.clone(), by_record.clone(), by_record, of_moved.clone(), of_moved]
    }
}

/// The lock of the tables here does not wait for writes that have ended here and not on the node. There they keep a lock, which this
/// waits for.
const WAIT_FOR_WRITES: &str = "SELECT p.success, p.result FROM unnest($1::text[]) t (name), LATERAL run_command_on_placements(t.name::regclass, \
     $$ DO $on_node$ BEGIN PERFORM set_config('lock_timeout', '10s', true), \
     set_config('citus.enable_manual_changes_to_shards', 'on', true); LOCK TABLE %s IN SHARE MODE; END $on_node$ $$) p";

async fn wait_for_writes(tx: &mut PgConnection, number: u8) -> Result<(), ShardsError> {
    let names = Partition::Shard(number).tables().all();
    let ended: Vec<(bool, String)> = sqlx::query_as(WAIT_FOR_WRITES).bind(&names[..]).fetch_all(tx).await?;
    match ended.into_iter().find(|(success, _)| !success) {
        Some((_, reason)) => Err(ShardsError::Writing { number, reason }),
        None => Ok(()),
    }
}

/// The last statements: all tables and indexes take their names. Reads of the shard wait from here on.
async fn rename(
    tx: &mut PgConnection,
    old: &Tables,
    split: &Split,
    made: &[Renamed],
) -> Result<Vec<String>, sqlx::Error> {
    let [own, rest] = [split.own, split.rest].map(|number| Partition::Shard(number).tables().all());
    let mut statements = Vec::new();
    for (at, table) in old.all().into_iter().enumerate() {
        statements.push(format!("ALTER TABLE {table} RENAME TO {}", own[at]));
        statements.push(format!("ALTER TABLE {} RENAME TO {}", new(rest[at]), rest[at]));
        for index in tables::indexes(tx, table).await? {
            if made.iter().any(|of| of.to == index.name) {
                // It is of a collection that was moved, and has its name there.
                statements.push(format!("DROP INDEX {}", index.name));
            } else if index.name.contains(table) {
                let to = index.name.replacen(table, own[at], 1);
                statements.push(Renamed { from: index.name, to }.statement());
            }
        }
    }
    statements.extend(made.iter().map(Renamed::statement));
    Ok(statements)
}
