//! Reads the value by which a row is sorted, which follows the columns of the row.

use sqlx::sqlite::SqliteRow;
use sqlx::{Row, TypeInfo, ValueRef};

use crate::query::sort::{Sort, SortKey, SortValue};
use crate::store::records::RowWithDid;
use crate::store::select::Classes;

/// A row with the columns of [`Dialect::POSITION`](crate::store::select::Dialect::POSITION).
pub(super) trait PositionRow {
    /// The class of the value, and its text.
    fn position(&self) -> Result<(i64, Option<String>), sqlx::Error>;

    fn sort_value(&self, sort: &Sort) -> Result<SortValue, sqlx::Error> {
        let (class, text) = self.position()?;
        let (classes, text) = (Classes::of(sort.direction), text.unwrap_or_default());
        Ok(match &sort.key {
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
    fn position(&self) -> Result<(i64, Option<String>), sqlx::Error> {
        let class = self.try_get(7)?;
        let number = self.try_get_raw(8)?;
        // Rust's text of a double parses to the same double; SQLite's does not.
        let text = match number.type_info().name() {
            _ if number.is_null() => self.try_get(9)?,
            "REAL" => Some(format!("{:e}", self.try_get_unchecked::<f64, _>(8)?)),
            _ => Some(self.try_get_unchecked::<i64, _>(8)?.to_string()),
        };
        Ok((class, text))
    }
}

impl PositionRow for RowWithDid {
    fn position(&self) -> Result<(i64, Option<String>), sqlx::Error> {
        Ok((self.columns.try_get(7)?, self.columns.try_get(8)?))
    }
}
