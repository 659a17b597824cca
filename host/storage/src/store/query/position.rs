//! Reads the values by which a row is sorted, which follow the columns of the row.

use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, TypeInfo, ValueRef};

use crate::query::Direction;
use crate::query::sort::{Sort, SortKey, SortValue};
use crate::store::records::RowWithDid;
use crate::store::select::Classes;

/// The columns of a row before those of its position.
const ROW_COLUMNS: usize = 7;

/// A row with the columns of [`Dialect::position`](crate::store::select::Dialect::position) for each key.
pub(super) trait PositionRow {
    /// The class of the value of the key with this number, and its text. `before`: the number of columns before the first
    /// key.
    fn position(&self, before: usize, key: usize) -> Result<(i64, Option<String>), sqlx::Error>;

    /// The values of all keys.
    fn sort_values(&self, sort: &Sort) -> Result<Vec<SortValue>, sqlx::Error> {
        sort.keys().enumerate().map(|(n, (key, direction))| self.sort_value(n, key, direction)).collect()
    }

    fn sort_value(&self, n: usize, key: &SortKey, direction: Direction) -> Result<SortValue, sqlx::Error> {
        let (class, text) = self.position(ROW_COLUMNS, n)?;
        let (classes, text) = (Classes::of(direction), text.unwrap_or_default());
        Ok(match key {
            SortKey::IndexedAt => SortValue::Number(text),
            SortKey::Did | SortKey::Uri => SortValue::Text(text),
            SortKey::Field(_) if class == classes.number => SortValue::Number(text),
            SortKey::Field(_) if class == classes.text => SortValue::Text(text),
            SortKey::Field(_) if class == classes.boolean => SortValue::Boolean(text == "1"),
            SortKey::Field(_) => SortValue::Missing,
        })
    }
}

impl PositionRow for SqliteRow {
    fn position(&self, before: usize, key: usize) -> Result<(i64, Option<String>), sqlx::Error> {
        let first = before + 3 * key;
        let class = self.try_get(first)?;
        let number = self.try_get_raw(first + 1)?;
        // Rust's text of a double parses to the same double; SQLite's does not.
        let text = match number.type_info().name() {
            _ if number.is_null() => self.try_get(first + 2)?,
            "REAL" => Some(format!("{:e}", self.try_get_unchecked::<f64, _>(first + 1)?)),
            _ => Some(self.try_get_unchecked::<i64, _>(first + 1)?.to_string()),
        };
        Ok((class, text))
    }
}

impl PositionRow for PgRow {
    fn position(&self, before: usize, key: usize) -> Result<(i64, Option<String>), sqlx::Error> {
        let first = before + 2 * key;
        Ok((self.try_get(first)?, self.try_get(first + 1)?))
    }
}

impl PositionRow for RowWithDid {
    fn position(&self, before: usize, key: usize) -> Result<(i64, Option<String>), sqlx::Error> {
        self.columns.position(before, key)
    }
}
