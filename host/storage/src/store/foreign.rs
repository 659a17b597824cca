//! Reads tables of the database of another product, of which the version decides which tables and columns there are.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr as _;

use sqlx::postgres::PgConnection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};

use super::StoreError;
use super::postgres::connect_options;
use super::script_sql::statement_limits;

/// Rows of one table that are read: more than any table of settings has.
const MAX_ROWS: usize = 100_000;

/// A database that is only read.
#[derive(Debug)]
pub enum ForeignDb {
    Sqlite(Box<SqliteConnection>),
    Postgres(Box<PgConnection>),
}

/// The values of a row as texts, by column. NULL is absent.
pub type ForeignRow = BTreeMap<String, String>;

impl ForeignDb {
    /// Opens the path of a SQLite file, `sqlite:PATH`, or `postgres://…`.
    ///
    /// # Errors
    /// When there is no such database.
    pub async fn open(place: &str) -> Result<Self, StoreError> {
        if place.starts_with("postgres:") || place.starts_with("postgresql:") {
            let connection = connect_options(place)?.connect().await?;
            return Ok(Self::Postgres(Box::new(connection)));
        }
        // Before any connection of this process.
        statement_limits::install();
        let options = if place.starts_with("sqlite:") {
            SqliteConnectOptions::from_str(place).map_err(|error| StoreError::Open(error.to_string()))?
        } else {
            SqliteConnectOptions::new().filename(Path::new(place))
        };
        let options = options.read_only(true).create_if_missing(false).disable_statement_logging();
        let opened = options.connect().await;
        let connection = opened.map_err(|error| StoreError::Open(format!("{place}: {error}")))?;
        Ok(Self::Sqlite(Box::new(connection)))
    }

    /// Whether there is such a table.
    ///
    /// # Errors
    /// When it can't be read.
    pub async fn has(&mut self, table: &str) -> Result<bool, StoreError> {
        Ok(!self.columns(table).await?.is_empty())
    }

    /// The rows of a table with those of the columns that it has; none if there is no such table.
    ///
    /// # Errors
    /// When it can't be read, or has more than 100,000 rows.
    pub async fn rows(&mut self, table: &str, columns: &[&str]) -> Result<Vec<ForeignRow>, StoreError> {
        let existing = self.columns(table).await?;
        let pairs: Vec<String> = columns
            .iter()
            .filter(|column| existing.iter().any(|name| name == *column))
            .map(|column| format!("'{column}', CAST({} AS TEXT)", quoted(column)))
            .collect();
        if pairs.is_empty() {
            return Ok(Vec::new());
        }
        let object = match self {
            Self::Sqlite(_) => "json_object",
            Self::Postgres(_) => "json_build_object",
        };
        let limit = MAX_ROWS + 1;
        let sql = format!(
            "SELECT CAST({object}({}) AS TEXT) FROM {} LIMIT {limit}",
            pairs.join(", "),
            quoted(table)
        );
        let texts: Vec<String> = match self {
            Self::Sqlite(connection) => {
                sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(connection.as_mut()).await?
            }
            Self::Postgres(connection) => {
                sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(connection.as_mut()).await?
            }
        };
        if texts.len() > MAX_ROWS {
            return Err(StoreError::Open(format!("the table {table} has more than {MAX_ROWS} rows")));
        }
        texts.iter().map(|text| row(text)).collect()
    }

    /// The number of a table's rows; 0 if there is no such table.
    ///
    /// # Errors
    /// When it can't be read.
    pub async fn count(&mut self, table: &str) -> Result<u64, StoreError> {
        if !self.has(table).await? {
            return Ok(0);
        }
        let sql = AssertSqlSafe(format!("SELECT count(*) FROM {}", quoted(table)));
        let count: i64 = match self {
            Self::Sqlite(connection) => sqlx::query_scalar(sql).fetch_one(connection.as_mut()).await?,
            Self::Postgres(connection) => sqlx::query_scalar(sql).fetch_one(connection.as_mut()).await?,
        };
        Ok(count.try_into().unwrap_or(0))
    }

    /// # Errors
    /// When the connection is lost already.
    pub async fn close(self) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(connection) => connection.close().await?,
            Self::Postgres(connection) => connection.close().await?,
        }
        Ok(())
    }

    async fn columns(&mut self, table: &str) -> Result<Vec<String>, StoreError> {
        Ok(match self {
            Self::Sqlite(connection) => {
                let sql = "SELECT name FROM pragma_table_info($1)";
                sqlx::query_scalar(sql).bind(table).fetch_all(connection.as_mut()).await?
            }
            Self::Postgres(connection) => {
                let sql = "SELECT CAST(column_name AS TEXT) FROM information_schema.columns \
                           WHERE table_schema = current_schema() AND table_name = $1";
                sqlx::query_scalar(sql).bind(table).fetch_all(connection.as_mut()).await?
            }
        })
    }
}

/// A name in SQL.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn row(text: &str) -> Result<ForeignRow, StoreError> {
    let values: BTreeMap<String, Option<String>> =
        serde_json::from_str(text).map_err(|error| StoreError::Corrupt(error.to_string()))?;
    Ok(values.into_iter().filter_map(|(column, value)| Some((column, value?))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn columns_and_tables_that_are_missing_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("other.db");
        assert!(ForeignDb::open(&file.display().to_string()).await.is_err(), "no file is created");
        let options = SqliteConnectOptions::new().filename(&file).create_if_missing(true);
        let mut connection = options.connect().await.unwrap();
        let fill = "CREATE TABLE \"odd \"\"name\" (id TEXT, n INTEGER, f REAL, gone TEXT); \
                    INSERT INTO \"odd \"\"name\" VALUES ('a', 7, 0.5, NULL), ('\"', NULL, 2, 'x')";
        sqlx::raw_sql(fill).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        for place in [file.display().to_string(), format!("sqlite:{}", file.display())] {
            let mut db = ForeignDb::open(&place).await.unwrap();
            let rows = db.rows("odd \"name", &["id", "n", "f", "gone", "never"]).await.unwrap();
            let row = |pairs: &[(&str, &str)]| {
                pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<ForeignRow>()
            };
            assert_eq!(
                rows,
                [
                    row(&[("id", "a"), ("n", "7"), ("f", "0.5")]),
                    row(&[("id", "\""), ("f", "2.0"), ("gone", "x")])
                ]
            );
            assert_eq!(db.count("odd \"name").await.unwrap(), 2);
            assert_eq!(db.rows("nothing", &["id"]).await.unwrap(), Vec::<ForeignRow>::new());
            assert_eq!(db.count("nothing").await.unwrap(), 0);
            db.close().await.unwrap();
        }
    }
}
