//! Distributes a database: makes each partition a table of its own on a node, in one transaction.
//!
//! Reads go on until its last statements; writes wait for its end. Nothing changes if it fails. Hosts have to be started again
//! afterwards: the names of the tables that they write are others then.

use sqlx::{AssertSqlSafe, PgConnection};

use super::placements::list;
use super::{COPIED, DIVIDED, ShardsError, cluster, is_distributed};
use crate::store::partitions::{COUNT, Partition};
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
    if is_distributed(cluster).await? {
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
    for statement in BEFORE {
        run(&mut tx, (*statement).to_owned()).await?;
    }
    let lock = [&DIVIDED[..], &COPIED[..]].concat().join(", ");
    run(&mut tx, format!("LOCK TABLE {lock} IN SHARE ROW EXCLUSIVE MODE")).await?;
    for table in COPIED {
        run(&mut tx, format!("SELECT create_reference_table('{table}')")).await?;
    }
    let mut renamed = Vec::new();
    for number in 0..COUNT {
        renamed.extend(fill(&mut tx, number).await?);
    }
    for statement in swap(&renamed) {
        run(&mut tx, statement).await?;
    }
    tx.commit().await?;
    Ok(())
}

async fn run(conn: &mut PgConnection, sql: String) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(conn).await.map(drop)
}

/// Sequential: one connection to each node, so that later statements see what earlier ones have done.
const BEFORE: &[&str] = &[
    "SET LOCAL statement_timeout = 0",
    "SET LOCAL lock_timeout = 0",
    "SET LOCAL idle_in_transaction_session_timeout = 0",
    "SET LOCAL citus.multi_shard_modify_mode = 'sequential'",
    "ALTER SEQUENCE record_ids OWNED BY NONE",
    // The triggers count for hosts of a version before, and watch an operator's own statements. Nodes can run neither.
    "DO $$ DECLARE found record; BEGIN FOR found IN SELECT DISTINCT tgname, tgrelid::regclass AS name FROM pg_trigger \
         WHERE NOT tgisinternal AND tgparentid = 0 AND (tgrelid = 'dids'::regclass OR tgrelid IN (SELECT relid FROM \
             pg_partition_tree('records') UNION ALL SELECT relid FROM pg_partition_tree('record_refs'))) \
     LOOP EXECUTE format('DROP TRIGGER %I ON %s', found.tgname, found.name); END LOOP; END $$",
];

/// The name of a table until it takes the place of another.
fn new(name: &str) -> String {
    format!("{name}_shard")
}

/// An index that gets its name when that is free.
struct Renamed {
    from: String,
    to: String,
}

/// Makes the tables of a shard, with the rows of its collections.
async fn fill(tx: &mut PgConnection, number: u8) -> Result<Vec<Renamed>, ShardsError> {
    let names = Partition::Shard(number).tables();
    let mut renamed = Vec::new();
    for (table, name) in DIVIDED.into_iter().zip(names.all()) {
        let has_partitions = matches!(table, "records" | "record_refs");
        let source = if has_partitions { name } else { table };
        let target = new(name);
        run(tx, format!("CREATE TABLE {target} (LIKE {source} INCLUDING DEFAULTS INCLUDING STORAGE)"))
            .await?;
        let beside = if table == "records" { "none".to_owned() } else { new(&names.records) };
        let distribute =
            format!("SELECT create_distributed_table('{target}', NULL, colocate_with => '{beside}')");
        run(tx, distribute).await?;
        let of_partition = if has_partitions {
            String::new()
        } else {
            format!(" WHERE partition_of(collection_id) = {number}")
        };
        let columns: String = sqlx::query_scalar(COLUMNS).bind(source).fetch_one(&mut *tx).await?;
        run(tx, format!("INSERT INTO {target} ({columns}) SELECT {columns} FROM {source}{of_partition}"))
            .await?;
        let indexes: Vec<(String, String, bool)> =
            sqlx::query_as(INDEXES).bind(source).fetch_all(&mut *tx).await?;
        for (index, definition, is_primary) in indexes {
            let to = if has_partitions { index } else { index.replacen(table, name, 1) };
            let from = new(&to);
            let sql = if is_primary {
                format!("ALTER TABLE {target} ADD CONSTRAINT {from} {definition}")
            } else {
                format!("CREATE {definition}").replacen("{index}", &from, 1).replacen("{table}", &target, 1)
            };
            run(tx, sql).await?;
            renamed.push(Renamed { from, to });
        }
    }
    let (records, invalid) = (new(&names.records), new(&names.invalid_records));
    run(
        tx,
        format!(
            "ALTER TABLE {invalid} ADD CONSTRAINT {}_record_fkey FOREIGN KEY (record_id, collection_id) \
             REFERENCES {records} (id, collection_id) ON DELETE CASCADE",
            names.invalid_records
        ),
    )
    .await?;
    Ok(renamed)
}

const COLUMNS: &str = "SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute \
     WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped";

/// The indexes of a table: their name, what follows CREATE with the names to fill in, or the constraint, and whether they are the
/// primary key.
const INDEXES: &str = "SELECT c.relname::text, CASE WHEN i.indisprimary THEN \
         (SELECT pg_get_constraintdef(k.oid) FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.contype = 'p') \
         ELSE CASE WHEN i.indisunique THEN 'UNIQUE ' ELSE '' END || 'INDEX {index} ON {table}' || \
             substr(pg_get_indexdef(c.oid), strpos(pg_get_indexdef(c.oid), ' USING ')) END, i.indisprimary \
     FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
     WHERE i.indrelid = $1::regclass AND i.indisvalid ORDER BY i.indisprimary DESC, c.relname";

/// The last statements: the new tables take the places of the old ones.
fn swap(renamed: &[Renamed]) -> Vec<String> {
    let names: Vec<[&str; 5]> = Partition::shards().map(|partition| partition.tables().all()).collect();
    let mut statements = vec![
        "CREATE TABLE partitioned_collections (collection_id BIGINT NOT NULL) PARTITION BY HASH (collection_id)".to_owned(),
        format!(
            "CREATE OR REPLACE FUNCTION partition_of(collection_id BIGINT) RETURNS INTEGER LANGUAGE sql STABLE AS $$ \
             SELECT n FROM generate_series(0, {}) AS n \
             WHERE satisfies_hash_partition('partitioned_collections'::regclass, {COUNT}, n, collection_id) $$",
            COUNT - 1
        ),
        "CREATE TABLE followed_collections (collection_id BIGINT PRIMARY KEY, is_shown BOOLEAN NOT NULL)".to_owned(),
    ];
    // The views of scripts depend on the tables: they are defined again, on views of all shards with the same names.
    for table in DIVIDED {
        statements.push(format!("ALTER TABLE {table} RENAME TO {table}_before"));
    }
    for (at, table) in DIVIDED.iter().enumerate() {
        let parts: Vec<String> = names.iter().map(|of| format!("SELECT * FROM {}", new(of[at]))).collect();
        statements.push(format!("CREATE VIEW {table} AS {}", parts.join(" UNION ALL ")));
    }
    statements.push(DEFINE_VIEWS_AGAIN.to_owned());
    for table in DIVIDED.iter().rev() {
        statements.push(format!("DROP TABLE {table}_before"));
    }
    for name in names.iter().flatten() {
        statements.push(format!("ALTER TABLE {} RENAME TO {name}", new(name)));
    }
    for Renamed { from, to } in renamed {
        statements.push(format!("ALTER INDEX {from} RENAME TO {to}"));
    }
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
