//! Reads the rows of a script's SELECT in pages (`db.page`).
//!
//! The SELECT becomes a subquery of one that orders its rows and begins after the row of the cursor. The guard checks the
//! whole as if the script had written it.

use std::collections::HashMap;

use serde_json::Value;
use serde_json::value::RawValue;

use super::guard::{GuardError, Parsed, without_end};
use super::{Answer, ScriptSqlError, admission};
use crate::query::sort::SortValue;
use crate::query::{Direction, PageSize, SqlPage};
use crate::store::{Backend, Db};
use belvedere_web::fair_share::Tenant;

/// The name of the subquery.
const ROWS: &str = "page_rows";

/// A page of rows, and the values of the order's columns in its last one if more rows follow.
#[derive(Debug)]
pub struct RowPage {
    pub answer: Answer,
    pub next: Option<Vec<SortValue>>,
}

/// A statement that is being written, with its parameters.
struct Wrapped {
    params: Vec<Value>,
    /// Whether parameters are written with numbers, as `$1`. PostgreSQL knows no others.
    is_numbered: bool,
    backend: Backend,
}

impl Wrapped {
    /// The SQL of a value in the order of the text. `None` for NULL.
    fn value(&mut self, value: &SortValue) -> Option<String> {
        let mut is_numeric = false;
        let value = match value {
            SortValue::Missing => return None,
            SortValue::Text(text) => Value::from(text.as_str()),
            SortValue::Boolean(value) => Value::from(*value),
            SortValue::Number(text) => match (text.parse::<i64>(), self.backend) {
                (Ok(whole), _) => whole.into(),
                // A double would lose digits of a numeric. SQLite's text of a double is not the double.
                (Err(_), Backend::Postgres) => {
                    is_numeric = true;
                    Value::from(text.as_str())
                }
                (Err(_), Backend::Sqlite) => Value::from(text.parse::<f64>().ok()),
            },
        };
        self.params.push(value);
        let parameter = if self.is_numbered { format!("${}", self.params.len()) } else { "?".to_owned() };
        Some(if is_numeric { format!("CAST({parameter} AS numeric)") } else { parameter })
    }

    /// The condition that a row comes after these values. Rows without a value are last.
    fn after(&mut self, order: &[(String, Direction)], values: &[SortValue]) -> String {
        let ([(name, direction), order @ ..], [value, values @ ..]) = (order, values) else {
            // Rows that are equal in all columns are one place.
            return "1 = 0".to_owned();
        };
        let column = format!("{ROWS}.{name}");
        let than = if *direction == Direction::Asc { ">" } else { "<" };
        let Some(beyond) = self.value(value) else {
            return format!("({column} IS NULL AND {})", self.after(order, values));
        };
        let equal = self.value(value).unwrap_or_default();
        let rest = self.after(order, values);
        format!("({column} IS NULL OR {column} {than} {beyond} OR ({column} = {equal} AND {rest}))")
    }
}

/// The statement of a page with its parameters.
fn wrap(
    sql: &str,
    params: &[Value],
    page: &SqlPage,
    backend: Backend,
) -> Result<(String, Vec<Value>), GuardError> {
    // A text that is a statement alone has balanced parentheses, so it ends where the subquery does.
    let parsed = Parsed::select(sql, backend, "db.page")?;
    let is_numbered = parsed.numbers_parameters() || backend == Backend::Postgres;
    let mut wrapped = Wrapped { params: params.to_vec(), is_numbered, backend };
    let condition = match &page.after {
        Some(values) => format!(" WHERE {}", wrapped.after(&page.order, values)),
        None => String::new(),
    };
    let order = page.order.iter().map(|(name, direction)| {
        let word = if *direction == Direction::Asc { "ASC" } else { "DESC" };
        format!("{ROWS}.{name} {word} NULLS LAST")
    });
    let order = order.collect::<Vec<_>>().join(", ");
    let sql = without_end(sql, backend);
    let limit = PageSize::rows_read(page.limit);
    // The line ends a comment at the end of the script's text.
    let text = format!("SELECT * FROM ({sql}\n) AS {ROWS}{condition} ORDER BY {order} LIMIT {limit}");
    Ok((text, wrapped.params))
}

/// Runs a SELECT for one page of its rows.
///
/// # Errors
/// [`ScriptSqlError`].
pub async fn read(
    db: &Db,
    tenant: &Tenant,
    sql: &str,
    params: &[Value],
    page: &SqlPage,
) -> Result<RowPage, ScriptSqlError> {
    let (sql, params) = wrap(sql, params, page, db.backend())?;
    let answer = admission::run(db, tenant, &sql, &params).await?;
    if answer.count <= page.limit as usize {
        return Ok(RowPage { answer, next: None });
    }
    first_rows(answer, page)
}

/// The first rows of an answer that has more than the page.
fn first_rows(answer: Answer, page: &SqlPage) -> Result<RowPage, ScriptSqlError> {
    // The server wrote this JSON itself.
    let wrong = |error: serde_json::Error| ScriptSqlError::Database(error.to_string());
    let mut found: Vec<&RawValue> = serde_json::from_slice(&answer.rows).map_err(wrong)?;
    found.truncate(page.limit as usize);
    let last: HashMap<String, &RawValue> = match found.last() {
        Some(last) => serde_json::from_str(last.get()).map_err(wrong)?,
        None => HashMap::new(),
    };
    let next = page.order.iter().map(|(name, _)| position(&last, name)).collect::<Result<_, _>>()?;
    let texts: Vec<&str> = found.iter().map(|row| row.get()).collect();
    let (rows, count) = (format!("[{}]", texts.join(",")).into_bytes(), texts.len());
    Ok(RowPage { answer: Answer { rows, count, ..answer }, next: Some(next) })
}

/// The value of a column of the order.
fn position(row: &HashMap<String, &RawValue>, name: &str) -> Result<SortValue, ScriptSqlError> {
    // Columns without quotes may be in another letter case in the result. A column that is NULL is not in the row.
    let found = row
        .get(name)
        .or_else(|| row.iter().find(|(column, _)| column.eq_ignore_ascii_case(name)).map(|(_, value)| value));
    let Some(value) = found else { return Ok(SortValue::Missing) };
    Ok(match serde_json::from_str(value.get()) {
        Ok(Value::String(text)) => SortValue::Text(text),
        Ok(Value::Number(_)) => SortValue::Number(value.get().to_owned()),
        Ok(Value::Bool(value)) => SortValue::Boolean(value),
        _ => {
            return Err(ScriptSqlError::Database(format!(
                "column {name} of the order is neither a text nor a number nor a boolean"
            )));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn page(after: Option<Vec<SortValue>>) -> SqlPage {
        let order = vec![("n".to_owned(), Direction::Desc), ("uri".to_owned(), Direction::Asc)];
        SqlPage { order, after, limit: 2 }
    }

    #[test]
    fn the_parameters_of_a_page_follow_those_of_the_statement() {
        let after = Some(vec![SortValue::Number("1.25".into()), SortValue::Text("a".into())]);
        let (sql, params) =
            wrap("SELECT ? AS n, uri FROM records;\n", &[json!(7)], &page(after.clone()), Backend::Sqlite)
                .unwrap();
        assert_eq!(
            sql,
            "SELECT * FROM (SELECT ? AS n, uri FROM records\n) AS page_rows WHERE (page_rows.n IS NULL \
             OR page_rows.n < ? OR (page_rows.n = ? AND (page_rows.uri IS NULL OR page_rows.uri > ? \
             OR (page_rows.uri = ? AND 1 = 0)))) ORDER BY page_rows.n DESC NULLS LAST, \
             page_rows.uri ASC NULLS LAST LIMIT 3"
        );
        assert_eq!(params, [json!(7), json!(1.25), json!(1.25), json!("a"), json!("a")]);
        let (sql, params) =
            wrap("SELECT $1 AS n, uri FROM records", &[json!(7)], &page(after), Backend::Postgres).unwrap();
        assert!(sql.contains("page_rows.n < CAST($2 AS numeric) "), "{sql}");
        assert!(sql.contains("page_rows.uri > $4 "), "{sql}");
        assert_eq!(params, [json!(7), json!("1.25"), json!("1.25"), json!("a"), json!("a")]);
    }

    #[test]
    fn the_end_of_a_statement_is_left_out() {
        for (sql, expected) in [
            ("SELECT ';' AS n; -- all;", "SELECT ';' AS n"),
            ("SELECT 1 -- ; no end\nAS n /* ; */ ;\n;", "SELECT 1 -- ; no end\nAS n /* ; */ "),
            ("SELECT 'ä' AS \"ö\"\n;", "SELECT 'ä' AS \"ö\"\n"),
            ("SELECT 1 AS n -- the end", "SELECT 1 AS n -- the end"),
        ] {
            for backend in [Backend::Sqlite, Backend::Postgres] {
                let (sql, _) = wrap(sql, &[], &page(None), backend).unwrap();
                assert!(sql.starts_with(&format!("SELECT * FROM ({expected}\n) AS page_rows")), "{sql}");
            }
        }
    }

    #[test]
    fn only_one_select_has_pages() {
        for sql in ["DELETE FROM script_x", "SELECT 1; SELECT 2", "SELECT 1) AS x, (SELECT 2", ""] {
            assert!(wrap(sql, &[], &page(None), Backend::Sqlite).is_err(), "{sql}");
        }
    }

    #[test]
    fn a_page_ends_at_the_values_of_its_last_row() {
        let rows = br#"[{"n":1,"uri":"a"},{"N":1.50,"uri":"b"},{"n":3}]"#;
        let answer = |rows: &[u8]| Answer { rows: rows.to_vec(), ..Answer::default() };
        let RowPage { answer: first, next } = first_rows(answer(rows), &page(None)).unwrap();
        assert_eq!(first.rows, br#"[{"n":1,"uri":"a"},{"N":1.50,"uri":"b"}]"#);
        assert_eq!(next, Some(vec![SortValue::Number("1.50".into()), SortValue::Text("b".into())]));
        assert!(first_rows(answer(br#"[{"n":1},{"n":[]},{"n":3}]"#), &page(None)).is_err());
    }
}
