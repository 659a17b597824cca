//! Assigns numeric ids to DIDs and collections and finds the DIDs of ids, with caches in memory.
//!
//! An id is assigned once and never removed (a purged account keeps its row in `dids`), and the partition of a collection
//! follows from its id until its shard is split. Then that shard is gone for ever: statements that name it fail until this process
//! knows the present ones, and entries that have it are not used. So the cache can't become stale, even when several processes share the
//! database.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use sqlx::AssertSqlSafe;

use belvedere_protocol::atproto::{Did, Nsid};

use super::partitions::{Partition, partition_number};
use super::types::to_json_text;
use super::{Db, StoreError};

/// Collections cached per generation: more than any instance indexes.
const COLLECTIONS_PER_GENERATION: usize = 4_096;

#[derive(Debug)]
pub(super) struct Interner {
    /// Whether the database is in shards.
    in_shards: bool,
    parts: RwLock<Arc<[Partition]>>,
    dids: Mutex<Generations<Did, i64>>,
    names: Mutex<Generations<i64, Arc<str>>>,
    collections: Mutex<Generations<Nsid, Collection>>,
}

/// A collection in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Collection {
    pub(super) id: i64,
    /// The part of `records` and `record_refs` that has its rows.
    pub(super) partition: Partition,
}

/// Whether a value of the cache may be used.
trait Exists {
    fn exists(&self, ids: &Interner) -> bool;
}

/// An id is never removed.
impl Exists for i64 {
    fn exists(&self, _: &Interner) -> bool {
        true
    }
}

impl Exists for Collection {
    fn exists(&self, ids: &Interner) -> bool {
        !ids.in_shards || ids.parts().contains(&self.partition)
    }
}

/// A bounded map that drops entries not used recently. When the current generation is full, it replaces the previous
/// one; a hit in the previous generation copies the entry into the current one.
#[derive(Debug)]
struct Generations<K, V> {
    current: HashMap<K, V>,
    previous: HashMap<K, V>,
    size: usize,
}

impl<K: Eq + Hash + Clone, V: Clone> Generations<K, V> {
    fn new(size: usize) -> Self {
        Self { current: HashMap::new(), previous: HashMap::new(), size }
    }

    fn get(&mut self, key: &K) -> Option<V> {
        if let Some(value) = self.current.get(key) {
            return Some(value.clone());
        }
        let value = self.previous.get(key)?.clone();
        self.insert(key.clone(), value.clone());
        Some(value)
    }

    fn insert(&mut self, key: K, value: V) {
        if self.current.len() >= self.size {
            self.previous = std::mem::take(&mut self.current);
        }
        self.current.insert(key, value);
    }
}

impl Interner {
    /// `accounts`: how many DIDs are cached. `shards`: their numbers; none for a database that is not in shards.
    pub(super) fn new(accounts: usize, shards: &[u8]) -> Self {
        let per_generation = accounts.div_ceil(2);
        Self {
            in_shards: !shards.is_empty(),
            parts: RwLock::new(parts(shards)),
            dids: Mutex::new(Generations::new(per_generation)),
            names: Mutex::new(Generations::new(per_generation)),
            collections: Mutex::new(Generations::new(COLLECTIONS_PER_GENERATION)),
        }
    }

    pub(super) fn in_shards(&self) -> bool {
        self.in_shards
    }

    /// Each of these once is the whole database.
    pub(super) fn parts(&self) -> Arc<[Partition]> {
        Arc::clone(&self.parts.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the numbers of the shards that there are now, in a database in shards. None is no answer: a database is not put together
    /// again while it is used.
    pub(super) fn set_shards(&self, shards: &[u8]) {
        if shards.is_empty() {
            return;
        }
        *self.parts.write().unwrap_or_else(PoisonError::into_inner) = parts(shards);
    }

    /// `partition`: its number, on PostgreSQL.
    pub(super) fn collection(&self, id: i64, partition: Option<i32>) -> Result<Collection, StoreError> {
        let of_number = |number| Partition::of_number(number, self.in_shards);
        Ok(Collection { id, partition: partition.map_or(Ok(Partition::Whole), of_number)? })
    }

    /// The DIDs of the accounts with these ids, and the ids whose DIDs are not in memory.
    pub(super) fn known_dids(&self, ids: impl Iterator<Item = i64>) -> (HashMap<i64, Arc<str>>, Vec<i64>) {
        let (mut known, mut missing) = (HashMap::new(), Vec::new());
        let mut cache = lock(&self.names);
        for id in ids {
            match cache.get(&id) {
                Some(did) => drop(known.insert(id, did)),
                None => missing.push(id),
            }
        }
        (known, missing)
    }

    /// Keeps the DID of an id in memory.
    pub(super) fn remember_did(&self, id: i64, did: Arc<str>) {
        lock(&self.names).insert(id, did);
    }
}

fn parts(shards: &[u8]) -> Arc<[Partition]> {
    if shards.is_empty() {
        return Arc::new([Partition::Whole]);
    }
    shards.iter().copied().map(Partition::Shard).collect()
}

/// A collection; `None` when none of its records was ever indexed. Never writes.
pub(super) async fn collection(db: &Db, nsid: &Nsid) -> Result<Option<Collection>, StoreError> {
    let cache = &db.ids().collections;
    if let Some(collection) = lock(cache).get(nsid)
        && collection.exists(db.ids())
    {
        return Ok(Some(collection));
    }
    let sql = match db {
        Db::Sqlite(_) => "SELECT id, CAST(NULL AS INTEGER) FROM collections WHERE nsid = $1",
        Db::Postgres(_) => {
            concat!("SELECT c.id, ", partition_number!("c.id"), " FROM collections c WHERE c.nsid = $1")
        }
    };
    let found: Option<(i64, Option<i32>)> = super::on!(db, reader, |pool| {
        sqlx::query_as(sql).bind(nsid.as_str()).fetch_optional(pool).await
    })?;
    let Some((id, partition)) = found else { return Ok(None) };
    let collection = db.ids().collection(id, partition)?;
    lock(cache).insert(nsid.clone(), collection);
    Ok(Some(collection))
}

/// All collections with their names, in the order of these.
pub(super) async fn all_collections(db: &Db) -> Result<Vec<(String, Collection)>, StoreError> {
    let sql = match db {
        Db::Sqlite(_) => "SELECT nsid, id, CAST(NULL AS INTEGER) FROM collections ORDER BY nsid",
        Db::Postgres(_) => {
            concat!("SELECT nsid, c.id, ", partition_number!("c.id"), " FROM collections c ORDER BY nsid")
        }
    };
    let rows: Vec<Row> = super::on!(db, reader, |pool| sqlx::query_as(sql).fetch_all(pool).await)?;
    let ids = db.ids();
    rows.into_iter().map(|(name, id, partition)| Ok((name, ids.collection(id, partition)?))).collect()
}

/// The ids of all `dids`; assigns missing ones in a transaction of its own, because an id without records does no harm.
pub(super) async fn did_ids<'a>(
    db: &Db,
    dids: impl Iterator<Item = &'a Did>,
) -> Result<HashMap<&'a Did, i64>, StoreError> {
    let table =
        Table { name: "dids", column: "did", partition: "CAST(NULL AS INTEGER)", value: |_, id, _| Ok(id) };
    ids(db, &db.ids().dids, dids, table).await
}

/// The ids of those `dids` that have one, each once. Never writes.
pub(super) async fn existing_did_ids(db: &Db, dids: &[Did]) -> Result<Vec<i64>, StoreError> {
    let cache = &db.ids().dids;
    let (mut known, missing) = cached(db.ids(), cache, dids.iter());
    if !missing.is_empty() {
        let rows: Vec<(String, i64)> = match db {
            Db::Sqlite(db) => {
                let sql = "SELECT d.did, d.id FROM json_each($1) j CROSS JOIN dids d WHERE d.did = j.value";
                sqlx::query_as(sql).bind(to_json_text(&missing)).fetch_all(db.read_pool.reads()).await?
            }
            Db::Postgres(db) => {
                let names: Vec<&str> = missing.iter().map(|did| did.as_str()).collect();
                let sql = "SELECT did, id FROM dids WHERE did = ANY($1)";
                sqlx::query_as(sql).bind(names).fetch_all(db.read_pools.hot.reads()).await?
            }
        };
        let found: HashMap<String, i64> = rows.into_iter().collect();
        let mut cache = lock(cache);
        for did in missing {
            if let Some(id) = found.get(did.as_str()) {
                cache.insert(did.clone(), *id);
                known.insert(did, *id);
            }
        }
    }
    Ok(known.into_values().collect())
}

/// Like [`did_ids`], for collections.
pub(super) async fn collections<'a>(
    db: &Db,
    collections: impl Iterator<Item = &'a Nsid>,
) -> Result<HashMap<&'a Nsid, Collection>, StoreError> {
    let partition = match db {
        Db::Sqlite(_) => "CAST(NULL AS INTEGER)",
        Db::Postgres(_) => partition_number!("id"),
    };
    let table = Table { name: "collections", column: "nsid", partition, value: Interner::collection };
    ids(db, &db.ids().collections, collections, table).await
}

struct Table<V> {
    name: &'static str,
    column: &'static str,
    /// An expression for the number of the row's partition.
    partition: &'static str,
    /// Makes the value that is cached for a row, from its id and partition.
    value: fn(&Interner, i64, Option<i32>) -> Result<V, StoreError>,
}

/// A row: its name, id and partition.
type Row = (String, i64, Option<i32>);

/// The values of the keys that are in memory, and the other keys, each once. They are sorted: all hosts insert in this order, so that
/// two of them can't deadlock.
fn cached<'a, K: Eq + Hash + Clone + Ord, V: Copy + Exists>(
    ids: &Interner,
    cache: &Mutex<Generations<K, V>>,
    keys: impl Iterator<Item = &'a K>,
) -> (HashMap<&'a K, V>, Vec<&'a K>) {
    let (mut known, mut missing) = (HashMap::new(), Vec::new());
    let mut cache = lock(cache);
    for key in keys {
        if known.contains_key(key) {
            continue;
        }
        if let Some(value) = cache.get(key).filter(|value| value.exists(ids)) {
            known.insert(key, value);
        } else {
            missing.push(key);
        }
    }
    missing.sort_unstable();
    missing.dedup();
    (known, missing)
}

async fn ids<'a, K: Eq + Hash + Clone + Ord + AsRef<str> + 'a, V: Copy + Exists>(
    db: &Db,
    cache: &Mutex<Generations<K, V>>,
    keys: impl Iterator<Item = &'a K>,
    table: Table<V>,
) -> Result<HashMap<&'a K, V>, StoreError> {
    let (mut known, missing) = cached(db.ids(), cache, keys);
    if missing.is_empty() {
        return Ok(known);
    }
    let names: Vec<&str> = missing.iter().map(|k| (*k).as_ref()).collect();
    let rows = find_or_insert(db, &names, &table).await?;
    let mut found: HashMap<String, _> =
        rows.into_iter().map(|(name, id, partition)| (name, (id, partition))).collect();
    let mut cache = lock(cache);
    for key in missing {
        let (id, partition) = found
            .remove(key.as_ref())
            .ok_or_else(|| StoreError::Corrupt(format!("{} has no id for {}", table.name, key.as_ref())))?;
        let value = (table.value)(db.ids(), id, partition)?;
        cache.insert(key.clone(), value);
        known.insert(key, value);
    }
    Ok(known)
}

async fn find_or_insert<V>(db: &Db, names: &[&str], table: &Table<V>) -> Result<Vec<Row>, StoreError> {
    let Table { name, column, partition, .. } = table;
    match db {
        Db::Sqlite(db) => {
            let list = to_json_text(names);
            let select = format!(
                "SELECT {column}, id, {partition} FROM {name} WHERE {column} IN (SELECT value FROM json_each($1))"
            );
            let rows: Vec<Row> =
                sqlx::query_as(AssertSqlSafe(select.clone())).bind(&list).fetch_all(&db.writer).await?;
            if rows.len() == names.len() {
                return Ok(rows);
            }
            let insert = format!(
                "INSERT INTO {name} ({column}) SELECT value FROM json_each($1) WHERE true ON CONFLICT DO NOTHING"
            );
            sqlx::query(AssertSqlSafe(insert)).bind(&list).execute(&db.writer).await?;
            Ok(sqlx::query_as(AssertSqlSafe(select)).bind(&list).fetch_all(&db.writer).await?)
        }
        Db::Postgres(db) => {
            let select = format!("SELECT {column}, id, {partition} FROM {name} WHERE {column} = ANY($1)");
            let rows: Vec<Row> =
                sqlx::query_as(AssertSqlSafe(select.clone())).bind(names).fetch_all(db.reader()).await?;
            if rows.len() == names.len() {
                return Ok(rows);
            }
            let insert =
                format!("INSERT INTO {name} ({column}) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING");
            sqlx::query(AssertSqlSafe(insert)).bind(names).execute(db.writer()).await?;
            Ok(sqlx::query_as(AssertSqlSafe(select)).bind(names).fetch_all(db.reader()).await?)
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A panic under the lock can't leave a wrong entry behind.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unused_entries_are_dropped() {
        let mut cache = Generations::new(2);
        for n in 0..10_u32 {
            cache.insert(n, i64::from(n));
            assert_eq!(cache.get(&0), Some(0), "used in every step");
        }
        assert_eq!(cache.get(&1), None);
        assert!(cache.current.len() + cache.previous.len() <= 4);
    }
}
