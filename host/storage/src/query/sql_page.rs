//! Checks the arguments of `db.page`: the order of a SELECT's rows, and the row after which a page begins.

use super::cursor::{InvalidCursor, decode_sql, encode_sql};
use super::sort::{MAX_KEYS, SortValue};
use super::{Direction, PageSize};

/// Limit of a column's name: scripts write shorter ones.
const MAX_NAME_BYTES: usize = 64;

/// A page of the rows of a SELECT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlPage {
    /// Names of columns of the result.
    pub order: Vec<(String, Direction)>,
    /// The values of these columns in the row before the page.
    pub after: Option<Vec<SortValue>>,
    pub limit: u32,
}

/// Error for invalid arguments. The text is for the script's author.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SqlPageError {
    #[error("order takes 1 to {MAX_KEYS} names of columns")]
    Keys,
    #[error("invalid column {0:?} in order: a name has letters, digits and _")]
    Name(String),
    #[error(transparent)]
    Cursor(#[from] InvalidCursor),
}

impl SqlPage {
    /// # Errors
    /// [`SqlPageError`].
    pub fn parse<'a>(
        order: impl IntoIterator<Item = (&'a str, Direction)>,
        limit: Option<i64>,
        cursor: Option<&str>,
    ) -> Result<Self, SqlPageError> {
        let mut columns: Vec<(String, Direction)> = Vec::new();
        for (name, direction) in order {
            let is_named = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
            if !is_named
                || name.len() > MAX_NAME_BYTES
                || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            {
                return Err(SqlPageError::Name(name.chars().take(MAX_NAME_BYTES).collect()));
            }
            columns.push((name.to_owned(), direction));
        }
        if !(1..=MAX_KEYS).contains(&columns.len()) {
            return Err(SqlPageError::Keys);
        }
        let after = cursor.filter(|cursor| !cursor.is_empty()).map(decode_sql).transpose()?;
        if after.as_ref().is_some_and(|values| values.len() != columns.len()) {
            return Err(InvalidCursor.into());
        }
        Ok(Self { order: columns, after, limit: PageSize::SQL.clamp(limit) })
    }

    /// The cursor of the page after a row with these values; `None` if they are too long for one.
    pub fn cursor(values: &[SortValue]) -> Option<String> {
        encode_sql(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(order: &[&'static str], cursor: Option<&str>) -> Result<SqlPage, String> {
        let order = order.iter().map(|name| (*name, Direction::Asc));
        SqlPage::parse(order, None, cursor).map_err(|error| error.to_string())
    }

    #[test]
    fn an_order_has_names_of_columns() {
        assert_eq!(parse(&["n", "_uri2"], Some("")).map(|page| (page.order.len(), page.limit)), Ok((2, 50)));
        assert_eq!(parse(&[], None).unwrap_err(), "order takes 1 to 4 names of columns");
        assert_eq!(
            parse(&["a", "b", "c", "d", "e"], None).unwrap_err(),
            "order takes 1 to 4 names of columns"
        );
        for name in ["", "1", "a b", "a\"", "count(*)", "ä", "a.b", "-a"] {
            assert!(parse(&[name], None).unwrap_err().starts_with("invalid column"), "{name}");
        }
    }

    #[test]
    fn a_cursor_belongs_to_its_order() {
        let values = [SortValue::Number("1.50".into()), SortValue::Text("ä".into()), SortValue::Missing];
        let cursor = SqlPage::cursor(&values).unwrap();
        assert_eq!(parse(&["a", "b", "c"], Some(&cursor)).unwrap().after.as_deref(), Some(&values[..]));
        for (order, cursor) in
            [(&["a"][..], cursor.as_str()), (&["a", "b", "c"], &cursor[1..]), (&["a"], "x")]
        {
            assert_eq!(parse(order, Some(cursor)).unwrap_err(), "malformed cursor");
        }
        for value in [SortValue::Text("x".repeat(70_000)), SortValue::Text("a\0".into())] {
            assert_eq!(SqlPage::cursor(&[value]), None);
        }
    }
}
