//! The tables of a shard: made from others, with their rows and indexes, under names that they have until they take their place.

use sqlx::PgConnection;

use crate::store::definitions::run;
use crate::store::partitions::{COUNT, DIVIDED, Tables};

/// A table whose rows a shard takes.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) table: String,
    /// The condition of the rows that it takes; all of them without one.
    pub(super) rows: Option<String>,
}

/// An index that gets its name when that is free.
#[derive(Clone, Debug)]
pub(super) struct Renamed {
    pub(super) from: String,
    pub(super) to: String,
}

impl Renamed {
    pub(super) fn statement(&self) -> String {
        format!("ALTER INDEX {} RENAME TO {}", self.from, self.to)
    }
}

/// The name of a table until it takes the place of another.
pub(super) fn new(name: &str) -> String {
    format!("{name}_shard")
}

/// An index of a table.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(super) struct Index {
    pub(super) name: String,
    /// The constraint, or what follows CREATE, with the names to fill in.
    definition: String,
    is_primary: bool,
    /// The condition of a partial index.
    pub(super) rows: Option<String>,
}

const INDEXES: &str = "SELECT c.relname::text AS name, CASE WHEN i.indisprimary THEN \
         (SELECT pg_get_constraintdef(k.oid) FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.contype = 'p') \
         ELSE CASE WHEN i.indisunique THEN 'UNIQUE ' ELSE '' END || 'INDEX {index} ON {table}' || \
             substr(pg_get_indexdef(c.oid), strpos(pg_get_indexdef(c.oid), ' USING ')) END AS definition, \
         i.indisprimary AS is_primary, pg_get_expr(i.indpred, i.indrelid) AS rows \
     FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
     WHERE i.indrelid = $1::regclass AND i.indisvalid ORDER BY i.indisprimary DESC, c.relname";

const COLUMNS: &str = "SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute \
     WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped";

/// The storage parameters of a table, as such as it is made with.
const OPTIONS: &str = "SELECT coalesce('WITH (' || array_to_string(reloptions, ', ') || ')', '') FROM pg_class WHERE oid = $1::regclass";

pub(super) async fn indexes(conn: &mut PgConnection, table: &str) -> Result<Vec<Index>, sqlx::Error> {
    sqlx::query_as(INDEXES).bind(table).fetch_all(conn).await
}

/// Makes the tables of a shard, with the rows of `sources` and their indexes but those that `omits` names. Returns the indexes under the
/// names that they have so far.
pub(super) async fn make(
    tx: &mut PgConnection,
    target: &Tables,
    sources: [Source; 5],
    omits: impl Fn(&Index) -> bool,
) -> Result<Vec<Renamed>, sqlx::Error> {
    let mut renamed = Vec::new();
    let tables = DIVIDED.into_iter().zip(target.all());
    for ((table, name), Source { table: source, rows }) in tables.zip(sources) {
        let made = new(name);
        let options: String = sqlx::query_scalar(OPTIONS).bind(&source).fetch_one(&mut *tx).await?;
        run(
            tx,
            format!("CREATE TABLE {made} (LIKE {source} INCLUDING DEFAULTS INCLUDING STORAGE) {options}"),
        )
        .await?;
        let beside = if table == "records" { "none".to_owned() } else { new(&target.records) };
        run(tx, format!("SELECT create_distributed_table('{made}', NULL, colocate_with => '{beside}')"))
            .await?;
        let columns: String = sqlx::query_scalar(COLUMNS).bind(&source).fetch_one(&mut *tx).await?;
        let rows = rows.map(|rows| format!(" WHERE {rows}")).unwrap_or_default();
        run(tx, format!("INSERT INTO {made} ({columns}) SELECT {columns} FROM {source}{rows}")).await?;
        for index in indexes(tx, &source).await?.into_iter().filter(|index| !omits(index)) {
            let to = index.name.replacen(&source, name, 1);
            let from = new(&to);
            let sql = if index.is_primary {
                format!("ALTER TABLE {made} ADD CONSTRAINT {from} {}", index.definition)
            } else {
                let create = format!("CREATE {}", index.definition);
                create.replacen("{index}", &from, 1).replacen("{table}", &made, 1)
            };
            run(tx, sql).await?;
            renamed.push(Renamed { from, to });
        }
    }
    let (records, invalid) = (new(&target.records), new(&target.invalid_records));
    run(
        tx,
        format!(
            "ALTER TABLE {invalid} ADD CONSTRAINT {}_record_fkey FOREIGN KEY (record_id, collection_id) \
             REFERENCES {records} (id, collection_id) ON DELETE CASCADE",
            target.invalid_records
        ),
    )
    .await?;
    Ok(renamed)
}

/// The view of all shards that has the name of the table that they divide. `names`: those of the tables, of each shard in the order
/// of [`DIVIDED`].
pub(super) fn views(names: &[[String; 5]]) -> impl Iterator<Item = String> + '_ {
    DIVIDED.iter().enumerate().map(|(at, table)| {
        let parts: Vec<String> = names.iter().map(|of| format!("SELECT * FROM {}", of[at])).collect();
        format!("CREATE OR REPLACE VIEW {table} AS {}", parts.join(" UNION ALL "))
    })
}

/// The splits: one collection of the shard `number` has the shard `own`, and all others have `rest`.
const SPLITS: &str = "CREATE TABLE IF NOT EXISTS shard_splits ( \
     number SMALLINT PRIMARY KEY, collection_id BIGINT NOT NULL, own SMALLINT NOT NULL, rest SMALLINT NOT NULL)";

/// The table and the function for the shard of a collection: that of its partition, and if this was split, that of the part that
/// has it.
pub(in crate::store) fn partition_of() -> [String; 2] {
    let function = format!(
        "CREATE OR REPLACE FUNCTION partition_of(collection_id BIGINT) RETURNS INTEGER LANGUAGE plpgsql STABLE AS $$ \
         DECLARE shard INTEGER; part INTEGER; BEGIN \
         SELECT n INTO shard FROM generate_series(0, {}) AS n \
             WHERE satisfies_hash_partition('partitioned_collections'::regclass, {COUNT}, n, $1); \
         LOOP SELECT CASE WHEN s.collection_id = $1 THEN s.own ELSE s.rest END INTO part FROM shard_splits s WHERE s.number = shard; \
             EXIT WHEN NOT FOUND; shard := part; END LOOP; \
         RETURN shard; END $$",
        COUNT - 1
    );
    [SPLITS.to_owned(), function]
}
