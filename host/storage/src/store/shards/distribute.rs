//! Distributes a database: makes each partition a table of its own on a node, in one transaction.
//!
//! Reads go on until its last statements; writes wait for its end. Nothing changes if it fails. Hosts have to be started again
//! afterwards: the names of the tables that they write are others then.

use super::placements::list;
use super::tables::{self, Renamed, Source, new};
use super::{COPIED, ShardsError, cluster, one_at_a_time};
use crate::store::definitions::run;
use crate::store::partitions::{COUNT, DIVIDED, Partition, shard_numbers};
use crate::store::{Db, Postgres};

/// The tables that [`distribute`] moves or copies.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Contents {
    pub table: String,
    /// Whether each node gets a copy of it, instead of a part.
    pub is_copied: bool,
    /// Rows as PostgreSQL estimates them.
    pub rows: i64,
    /// Bytes with indexes.
    pub bytes: i64,
}

const CONTENTS: &str = "SELECT c.relname AS table, c.relname = ANY($2) AS is_copied, \
     (SELECT coalesce(sum(greatest(p.reltuples, 0)), 0)::bigint FROM pg_class p \
         WHERE p.oid = c.oid OR p.oid IN (SELECT relid FROM pg_partition_tree(c.oid))) AS rows, \
     (pg_total_relation_size(c.oid) + coalesce((SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree(c.oid) \
         WHERE relid <> c.oid), 0))::bigint AS bytes \
     FROM pg_class c WHERE c.oid = ANY (SELECT to_regclass(n) FROM unnest($1 || $2) n) ORDER BY 2, 1";

/// The tables that [`distribute`] would move.
///
/// # Errors
/// When the database can't be distributed.
pub async fn planned(db: &Db) -> Result<Vec<Contents>, ShardsError> {
    let cluster = distributable(db).await?;
    let query = sqlx::query_as(CONTENTS).bind(&DIVIDED[..]).bind(&COPIED[..]);
    Ok(query.fetch_all(cluster.reader()).await?)
}

async fn distributable(db: &Db) -> Result<&Postgres, ShardsError> {
    let cluster = cluster(db).await?;
    if !shard_numbers(cluster.reader()).await?.is_empty() {
        return Err(ShardsError::AlreadyInShards);
    }
    if !list(cluster).await?.iter().any(|node| node.takes_shards && node.is_active) {
        return Err(ShardsError::NoNode);
    }
    Ok(cluster)
}

/// Distributes the database over the nodes that take shards.
///
/// # Errors
/// When the database can't be distributed, and when a statement fails: then nothing has changed.
pub async fn distribute(db: &Db) -> Result<(), ShardsError> {
    let cluster = distributable(db).await?;
    let mut tx = cluster.pool.begin().await?;
    one_at_a_time(&mut tx).await?;
    // Another host may have done it meanwhile.
    if !shard_numbers(&mut *tx).await?.is_empty() {
        return Err(ShardsError::AlreadyInShards);
    }
    for statement in PREPARE {
        run(&mut tx, (*statement).to_owned()).await?;
    }
    let lock = [&DIVIDED[..], &COPIED[..]].concat().join(", ");
    run(&mut tx, format!("LOCK TABLE {lock} IN SHARE ROW EXCLUSIVE MODE")).await?;
    for table in COPIED {
        run(&mut tx, format!("SELECT create_reference_table('{table}')")).await?;
    }
    let mut renamed = Vec::new();
    for number in 0..COUNT {
        let target = Partition::Shard(number).tables();
        renamed.extend(tables::make(&mut tx, target, sources(number), |_| false).await?);
    }
    for statement in swap(&renamed) {
        run(&mut tx, statement).await?;
    }
    tx.commit().await?;
    Ok(())
}

/// Distributes a database that has no records yet, for a server that starts. Returns whether it is in shards now and was not when it
/// was opened: then it has to be opened again. One with records is left to [`distribute`], because that takes its time.
///
/// # Errors
/// As [`distribute`].
pub async fn distribute_new(db: &Db) -> Result<bool, ShardsError> {
    if let Db::Postgres(opened) = db
        && opened.nodes.is_some()
    {
        return Ok(false);
    }
    match distributable(db).await {
        Ok(cluster) if has_records(cluster).await? => {
            tracing::warn!(
                "DATABASE_SHARDS is set, and the database is not in shards: it has records already; run belvedere shards distribute"
            );
            return Ok(false);
        }
        Ok(_) | Err(ShardsError::AlreadyInShards) => {}
        Err(error) => return Err(error),
    }
    match distribute(db).await {
        Ok(()) | Err(ShardsError::AlreadyInShards) => Ok(true),
        Err(error) => Err(error),
    }
}

async fn has_records(cluster: &Postgres) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM records)").fetch_one(cluster.reader()).await
}

/// The tables that have the rows of a partition: its own, and those that have none yet.
fn sources(number: u8) -> [Source; 5] {
    let names = Partition::Numbered(number).tables().all();
    std::array::from_fn(|at| Source {
        table: names[at].to_owned(),
        rows: (names[at] == DIVIDED[at]).then(|| format!("partition_of(collection_id) = {number}")),
    })
}

/// The first statements that change something.
const PREPARE: &[&str] = &[
    "ALTER SEQUENCE record_ids OWNED BY NONE",
    // The triggers count for hosts of a version before, and watch an operator's own statements. Nodes can run neither.
    "DO $$ DECLARE found record; BEGIN FOR found IN SELECT DISTINCT tgname, tgrelid::regclass AS name FROM pg_trigger \
         WHERE NOT tgisinternal AND tgparentid = 0 AND (tgrelid = 'dids'::regclass OR tgrelid IN (SELECT relid FROM \
             pg_partition_tree('records') UNION ALL SELECT relid FROM pg_partition_tree('record_refs'))) \
     LOOP EXECUTE format('DROP TRIGGER %I ON %s', found.tgname, found.name); END LOOP; END $$",
];

/// The last statements: the new tables take the places of the old ones.
fn swap(renamed: &[Renamed]) -> Vec<String> {
    let names: Vec<[&str; 5]> = (0..COUNT).map(|number| Partition::Shard(number).tables().all()).collect();
    let mut statements = vec![
        "CREATE TABLE partitioned_collections (collection_id BIGINT NOT NULL) PARTITION BY HASH (collection_id)".to_owned(),
        "CREATE TABLE followed_collections (collection_id BIGINT PRIMARY KEY, is_shown BOOLEAN NOT NULL)".to_owned(),
    ];
    statements.extend(tables::partition_of());
    // The views of scripts depend on the tables: they are defined again, on views of all shards with the same names.
    for table in DIVIDED {
        statements.push(format!("ALTER TABLE {table} RENAME TO {table}_before"));
    }
    let made: Vec<[String; 5]> = names.iter().map(|of| of.map(new)).collect();
    statements.extend(tables::views(&made));
    statements.push(DEFINE_VIEWS_AGAIN.to_owned());
    for table in DIVIDED.iter().rev() {
        statements.push(format!("DROP TABLE {table}_before"));
    }
    for name in names.iter().flatten() {
        statements.push(format!("ALTER TABLE {} RENAME TO {name}", new(name)));
    }
    statements.extend(renamed.iter().map(Renamed::statement));
    statements
}

const DEFINE_VIEWS_AGAIN: &str = "DO $$ DECLARE found record; definition text; BEGIN \
     FOR found IN SELECT DISTINCT v.oid, v.relname, n.nspname FROM pg_depend d JOIN pg_rewrite w ON w.oid = d.objid \
         JOIN pg_class v ON v.oid = w.ev_class JOIN pg_namespace n ON n.oid = v.relnamespace \
         WHERE d.refobjid IN ('records_before'::regclass, 'record_refs_before'::regclass, 'invalid_records_before'::regclass) \
             AND n.nspname = 'script_views' \
     LOOP definition := replace(replace(replace(pg_get_viewdef(found.oid), 'invalid_records_before', 'invalid_records'), \
             'record_refs_before', 'record_refs'), 'records_before', 'records'); \
         EXECUTE format('CREATE OR REPLACE VIEW %I.%I AS %s', found.nspname, found.relname, definition); END LOOP; END $$";
