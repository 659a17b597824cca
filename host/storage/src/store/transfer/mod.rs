//! Moves everything from one database to one of the other kind: from SQLite to PostgreSQL, or back (ADR 58).
//!
//! The list of tables comes from the databases' catalogs. The target is marked as incomplete ([`super::incomplete`]) until
//! all rows were read back from it and have the same number and checksum as those of the source.

mod catalog;
mod copy_text;
mod ends;
mod own_tables;
mod postgres;
mod sqlite;
#[cfg(test)]
mod tests;
mod value;

use ends::{End, Place};
use value::Row;

use super::script_sql::role::ScriptRole;
use super::{Db, Resources, StoreError};

pub use value::Sum;

/// Rows and bytes that are in memory at once: few enough for any machine, many enough for one statement.
const BATCH_ROWS: usize = 4_000;
const BATCH_BYTES: usize = 4 << 20;

/// The reason why a database was not moved.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    #[error(
        "both databases are of the same kind: `belvedere backup` copies SQLite, pg_dump and pg_restore copy PostgreSQL"
    )]
    SameKind,
    #[error(
        "a server or another command uses the source; stop it, so that nothing is written after it was read"
    )]
    SourceInUse,
    #[error("the target is not empty: name a new database")]
    TargetUsed,
    #[error(
        "the target does not know these tables or columns of the source: {0}. They belong to another version, or were \
             added by hand: start this version on the source once, or remove them"
    )]
    Unknown(String),
    #[error("{table}.{column} has a value that its type on PostgreSQL can't hold")]
    Value { table: String, column: String },
    #[error(
        "the scripts' table {table} has both bytes and other values in the column {column}: make them the same first"
    )]
    Mixed { table: String, column: String },
    #[error(
        "{table} differs after the move: {source_rows} rows were read, {target_rows} arrived, or their contents differ. \
             The target stays marked as incomplete"
    )]
    Differs { table: String, source_rows: u64, target_rows: u64 },
    #[error("rows of {0} refer to rows that do not exist; the source is damaged")]
    References(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<sqlx::Error> for MoveError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

/// The progress of a move. Rows are counted twice: when they are copied, and when they are read back.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    pub stage: &'static str,
    pub table: String,
    pub done: u64,
    pub total: u64,
}

/// The rows that were moved.
#[derive(Debug, Default)]
pub struct Report {
    /// For each table its rows and their checksum, which is the same in both databases.
    pub tables: Vec<(String, Sum)>,
    /// Values in which U+0000 was replaced, because PostgreSQL can't store it.
    pub replaced: u64,
    /// Parts of definitions of scripts' own tables that were not carried.
    pub notices: Vec<String>,
}

/// The database to fill.
#[derive(Debug)]
pub struct Target<'a> {
    pub url: &'a str,
    pub resources: Resources,
    pub role: &'a ScriptRole,
}

/// Copies all rows from `source`, which must be fully migrated and unused, to `target`. `finish` completes the filled
/// database before it is opened to others. `report` receives the progress.
///
/// # Errors
/// The target stays empty, or marked as incomplete; the next move into it begins again.
pub async fn run(
    source: &str,
    target: Target<'_>,
    mut report: impl FnMut(&Progress),
    finish: impl AsyncFnOnce(&Db) -> Result<(), StoreError>,
) -> Result<Report, MoveError> {
    let (from, to) = (Place::of(source)?, Place::of(target.url)?);
    if from.is_postgres() == to.is_postgres() {
        return Err(MoveError::SameKind);
    }
    let mut source = from.open(false).await?;
    source.begin().await?;
    to.claim().await?;
    // Creates the schema.
    let db = Db::open_incomplete(target.url, target.resources, target.role).await?;
    let migrated = db.migrate().await;
    db.close().await;
    migrated?;

    let mut filled = to.open(true).await?;
    let result = copy(&mut source, &mut filled, &mut report).await;
    filled.close().await?;
    let result = result?;

    report(&Progress { stage: "indexes of record fields", ..Progress::default() });
    let db = Db::open_incomplete(target.url, target.resources, target.role).await?;
    // The scripts' tables get their owner.
    db.prepare_script_role().await;
    let finished = finish(&db).await;
    db.close().await;
    finished?;
    source.check_unused().await?;
    source.close().await?;
    to.release().await?;
    Ok(result)
}

async fn copy(
    source: &mut End,
    target: &mut End,
    report: &mut impl FnMut(&Progress),
) -> Result<Report, MoveError> {
    let is_postgres = matches!(target, End::Postgres(_));
    let mut tables = catalog::pair(&source.catalog().await?, &target.catalog().await?, !is_postgres)?;
    let rebuilt = target.prepare(&tables).await?;
    let (own, mut notices) = own_tables::read(source).await?;
    for table in &own {
        target.execute(table.create(is_postgres, &mut notices)).await?;
    }
    tables.extend(own.iter().map(|own| own.table.clone()));

    let mut progress = Progress { stage: "copying", ..Progress::default() };
    for table in &tables {
        progress.total += 2 * source.count(table).await?;
    }
    let (mut sums, mut replaced) = (Vec::new(), 0);
    let mut scratch = Vec::new();
    for table in &tables {
        progress.table.clone_from(&table.name);
        report(&progress);
        let mut sum = Sum::default();
        replaced += source
            .read(table, &mut async |rows: Vec<Row>| {
                for row in &rows {
                    sum.add(&table.columns, row, &mut scratch);
                }
                target.write(table, &rows).await?;
                progress.done += rows.len() as u64;
                report(&progress);
                Ok(())
            })
            .await?;
        sums.push((table.name.clone(), sum));
    }
    progress.stage = "building indexes";
    report(&progress);
    let own_indexes = own.iter().flat_map(|own| own.create_indexes(is_postgres));
    for sql in rebuilt.into_iter().chain(own_indexes) {
        target.execute(sql).await?;
    }
    target.complete().await?;
    progress.stage = "comparing";
    for (table, (_, expected)) in tables.iter().zip(&sums) {
        progress.table.clone_from(&table.name);
        let mut sum = Sum::default();
        target
            .read(table, &mut async |rows: Vec<Row>| {
                for row in &rows {
                    sum.add(&table.columns, row, &mut scratch);
                }
                progress.done += rows.len() as u64;
                report(&progress);
                Ok(())
            })
            .await?;
        if sum != *expected {
            let (source_rows, target_rows) = (expected.rows, sum.rows);
            return Err(MoveError::Differs { table: table.name.clone(), source_rows, target_rows });
        }
    }
    Ok(Report { tables: sums, replaced, notices })
}
