//! PostgreSQL as the source or the target of a move.

use std::str::FromStr;
use std::time::{Duration, Instant};

use futures_util::TryStreamExt as _;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, PgConnection};

use super::catalog::{Catalog, DERIVED, Space, State, Table};
use super::value::{Row, Value};
use super::{BATCH_BYTES, BATCH_ROWS, MoveError, copy_text};
use crate::store::counts::postgres::ANNOUNCE_SESSION;
use crate::store::incomplete::{IS_SET_POSTGRES, MARKER};
use crate::store::postgres::APPLICATION_NAME;
use crate::store::script_sql::role::quoted;
use crate::store::script_sql::{OWN_SCHEMA, VIEW_SCHEMA};
use crate::store::{MIGRATIONS_TABLE, StoreError};

/// Time that closed sessions may take to disappear from PostgreSQL's list.
const CLOSING_TIME: Duration = Duration::from_secs(5);
/// Time between two looks at that list.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The records' value and the text that PostgreSQL keeps beside it (ADR 84). SQLite has only the text, so both are moved as one
/// column.
const RECORDS: &str = "records";
const VALUE: &str = "record";
const TEXT: &str = "record_text";

/// The server's own tables, without sqlx's and those of extensions. A partitioned table is one.
const CATALOG: &str = "SELECT c.relname::text, a.attname::text, t.typname::text \
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = current_schema() \
         JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' \
         JOIN pg_type t ON t.oid = a.atttypid \
     WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relname NOT IN ($1, $2) AND (c.relname, a.attname) <> ($3, $4) \
         AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e') \
     ORDER BY c.relname, a.attnum";

/// Everything that is in the way of a move: relations of the server's schema that belong to no extension, and the
/// schemas of scripts.
const OBSTACLES: &str = "SELECT (SELECT count(*) FROM pg_class c \
         JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = current_schema() \
         WHERE NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')) \
     + (SELECT count(*) FROM pg_namespace WHERE nspname IN ($1, $2))";

/// Foreign keys and indexes that a load is faster without: the statements that drop and that create them. Keys come
/// first, because they depend on indexes; then the indexes of partitioned tables, which are dropped with those of their
/// partitions and take these in when they are created again.
const REBUILT: &str = "SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', k.conrelid::regclass, k.conname), \
         format('ALTER TABLE %s ADD CONSTRAINT %I %s', k.conrelid::regclass, k.conname, pg_get_constraintdef(k.oid)) \
     FROM pg_constraint k JOIN pg_namespace n ON n.oid = k.connamespace AND n.nspname = current_schema() \
     WHERE k.contype = 'f' AND k.conparentid = 0 \
     UNION ALL (\
     SELECT format('DROP INDEX IF EXISTS %s', i.indexrelid::regclass), \
         replace(pg_get_indexdef(i.indexrelid), ' ON ONLY ', ' ON ') \
     FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
         JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = current_schema() \
     WHERE NOT EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conindid = i.indexrelid) \
         AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = i.indrelid AND d.deptype = 'e') \
     ORDER BY c.relkind = 'I' DESC)";

/// Columns whose values come from a sequence: their table and their name.
const SEQUENCES: &str = "SELECT format('%I.%I', n.nspname, c.relname), a.attname::text \
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname IN (current_schema(), $1) \
         JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped \
     WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND pg_get_serial_sequence(format('%I.%I', n.nspname, c.relname), a.attname) IS NOT NULL";

pub(super) struct Postgres {
    pub connection: PgConnection,
}

impl Postgres {
    /// Connects under a name of its own, so that it is not taken for a server.
    pub(super) async fn open(url: &str) -> Result<Self, StoreError> {
        let options = PgConnectOptions::from_str(url)
            .map_err(|_| StoreError::Open("the PostgreSQL URL is malformed".into()))?
            .disable_statement_logging()
            .application_name("belvedere move")
            .options([
                ("bytea_output", "hex"),
                ("TimeZone", "UTC"),
                ("DateStyle", "ISO"),
                ("statement_timeout", "0"),
            ]);
        Ok(Self { connection: options.connect().await? })
    }

    pub(super) async fn execute(&mut self, sql: String) -> Result<(), StoreError> {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut self.connection).await?;
        Ok(())
    }

    /// Waits until no server uses the database, for a moment: sessions that were closed may still be listed.
    pub(super) async fn is_used_by_servers(&mut self) -> Result<bool, StoreError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM pg_stat_activity \
                   WHERE datname = current_database() AND application_name = $1)";
        let started = Instant::now();
        loop {
            let is_used: bool =
                sqlx::query_scalar(sql).bind(APPLICATION_NAME).fetch_one(&mut self.connection).await?;
            if !is_used || started.elapsed() > CLOSING_TIME {
                return Ok(is_used);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Reads the database as it is now, whatever is written in the meantime.
    pub(super) async fn begin_snapshot(&mut self) -> Result<(), StoreError> {
        self.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY".into()).await
    }

    pub(super) async fn state(&mut self) -> Result<State, StoreError> {
        if sqlx::query_scalar(IS_SET_POSTGRES).fetch_one(&mut self.connection).await? {
            return Ok(State::Incomplete);
        }
        let obstacles: i64 = sqlx::query_scalar(OBSTACLES)
            .bind(VIEW_SCHEMA)
            .bind(OWN_SCHEMA)
            .fetch_one(&mut self.connection)
            .await?;
        Ok(if obstacles == 0 { State::Empty } else { State::Used })
    }

    /// Removes what an interrupted move left. Only for a database with the marker, which is removed last.
    pub(super) async fn clear(&mut self) -> Result<(), StoreError> {
        self.execute(format!("DROP SCHEMA IF EXISTS {VIEW_SCHEMA}, {OWN_SCHEMA} CASCADE")).await?;
        let sql = "SELECT c.relname::text FROM pg_class c \
                   JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = current_schema() \
                   WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition \
                       AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e') \
                   ORDER BY c.relname = $1";
        let tables: Vec<String> =
            sqlx::query_scalar(sql).bind(MARKER).fetch_all(&mut self.connection).await?;
        for table in tables {
            self.execute(format!("DROP TABLE {} CASCADE", quoted(&table))).await?;
        }
        Ok(())
    }

    pub(super) async fn catalog(&mut self) -> Result<Catalog, StoreError> {
        let rows: Vec<(String, String, String)> = sqlx::query_as(CATALOG)
            .bind(MIGRATIONS_TABLE)
            .bind(MARKER)
            .bind(RECORDS)
            .bind(TEXT)
            .fetch_all(&mut self.connection)
            .await?;
        let mut catalog = Catalog::new();
        for (table, column, kind) in rows {
            catalog.entry(table).or_default().push((column, kind));
        }
        Ok(catalog)
    }

    /// Empties the tables, and drops foreign keys and indexes. Returns the statements that create them again, indexes
    /// first.
    pub(super) async fn prepare(&mut self, tables: &[Table]) -> Result<Vec<String>, StoreError> {
        self.execute(ANNOUNCE_SESSION.to_owned()).await?;
        let rebuilt: Vec<(String, String)> = sqlx::query_as(REBUILT).fetch_all(&mut self.connection).await?;
        for (drop, _) in &rebuilt {
            self.execute(drop.clone()).await?;
        }
        if !tables.is_empty() {
            let names: Vec<String> = tables.iter().map(target).collect();
            self.execute(format!("TRUNCATE {}, {}", names.join(", "), DERIVED.join(", "))).await?;
        }
        Ok(rebuilt.into_iter().map(|(_, create)| create).rev().collect())
    }

    pub(super) async fn count(&mut self, table: &Table) -> Result<u64, StoreError> {
        let sql = format!("SELECT count(*) FROM {}", target(table));
        let count: i64 = sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut self.connection).await?;
        Ok(u64::try_from(count).unwrap_or_default())
    }

    pub(super) async fn read(
        &mut self,
        table: &Table,
        each: &mut impl AsyncFnMut(Vec<Row>) -> Result<(), MoveError>,
    ) -> Result<(), MoveError> {
        let mut columns = names(table);
        if let Some(value) = value_with_text(table) {
            columns[value] = format!("coalesce({TEXT}, {VALUE}::text)");
        }
        let sql = format!("COPY (SELECT {} FROM {}) TO STDOUT", columns.join(", "), target(table));
        let mut chunks = self.connection.copy_out_raw(&sql).await?;
        let (mut rest, mut batch, mut bytes) = (Vec::new(), Vec::new(), 0);
        while let Some(chunk) = chunks.try_next().await? {
            rest.extend(&*chunk);
            let mut start = 0;
            // A line's end within a value is escaped.
            while let Some(length) = rest[start..].iter().position(|byte| *byte == b'\n') {
                let row = copy_text::parse(&table.columns, &rest[start..start + length]);
                let row = row.ok_or_else(|| {
                    StoreError::Corrupt(format!("a row of {} is not in COPY's format", table.name))
                })?;
                bytes += row.iter().map(Value::size).sum::<usize>();
                batch.push(row);
                start += length + 1;
            }
            rest.drain(..start);
            if batch.len() >= BATCH_ROWS || bytes >= BATCH_BYTES {
                each(std::mem::take(&mut batch)).await?;
                bytes = 0;
            }
        }
        if !batch.is_empty() {
            each(batch).await?;
        }
        Ok(())
    }

    pub(super) async fn write(&mut self, table: &Table, rows: &[Row]) -> Result<(), StoreError> {
        let (mut columns, mut text) = (names(table), Vec::new());
        let twice = value_with_text(table);
        columns.extend(twice.map(|_| TEXT.to_owned()));
        for row in rows {
            let values = table.columns.iter().zip(row);
            copy_text::write(
                values.chain(twice.map(|value| (&table.columns[value], &row[value]))),
                &mut text,
            );
        }
        let sql = format!("COPY {} ({}) FROM STDIN", target(table), columns.join(", "));
        let mut copy = self.connection.copy_in_raw(&sql).await?;
        copy.send(text).await?;
        copy.finish().await?;
        Ok(())
    }

    /// Makes each sequence continue after the highest value.
    pub(super) async fn set_sequences(&mut self) -> Result<(), StoreError> {
        let columns: Vec<(String, String)> =
            sqlx::query_as(SEQUENCES).bind(OWN_SCHEMA).fetch_all(&mut self.connection).await?;
        for (table, column) in columns {
            let sql = format!(
                "SELECT setval(pg_get_serial_sequence($1, $2), coalesce(max({}), 0) + 1, FALSE) FROM {table}",
                quoted(&column)
            );
            sqlx::query(AssertSqlSafe(sql)).bind(&table).bind(&column).execute(&mut self.connection).await?;
        }
        Ok(())
    }
}

fn target(table: &Table) -> String {
    match table.space {
        Space::Server => quoted(&table.name),
        Space::Scripts => format!("{OWN_SCHEMA}.{}", quoted(&table.name)),
    }
}

fn names(table: &Table) -> Vec<String> {
    table.columns.iter().map(|column| quoted(&column.name)).collect()
}

/// The position of the records' value among the columns of their table.
fn value_with_text(table: &Table) -> Option<usize> {
    let is_records = table.space == Space::Server && table.name == RECORDS;
    table.columns.iter().position(|column| is_records && column.name == VALUE)
}
