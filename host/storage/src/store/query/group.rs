//! Counts the records that a query finds by values of theirs.
//!
//! As in a sort, a value is a class, a number and a text, of which the database groups by all three, so that values of
//! different types are never equal.

use serde_json::Value as Json;
use sqlx::Row;

use crate::query::group::{Group, GroupKey, GroupOrder, GroupRow, GroupValue};
use crate::store::reads::Reads;
use crate::store::select::{
    Accounts, Classes, Dialect, Keys, PostgresDialect, Select, Sql, SqliteDialect, Value, bound,
    direction_words,
};
use crate::store::{Db, StoreError, intern};
use belvedere_base::clock::Timestamp;
use belvedere_web::fair_share::Tenant;

use super::position::PositionRow;
use super::whole::Scan;

/// The class of arrays.
const LIST: i64 = 4;

/// The numbers of visible records with the same values, in the group's order.
///
/// # Errors
/// [`StoreError::Busy`] and [`StoreError::TooSlow`]: it is a scan, at least of what an index for the filter has.
pub async fn group(db: &Db, group: &Group, tenant: &Tenant) -> Result<Vec<GroupRow>, StoreError> {
    let Some(collection) = intern::collection(db, &group.query.collection).await? else {
        return Ok(Vec::new());
    };
    let mut scan = Scan::begin(db, &group.query, collection, tenant).await?;
    let mut found = run(db, &scan.select(), group).await;
    if scan.has_lost_its_index(&found) {
        found = run(db, &scan.select(), group).await;
    }
    scan.end(&found);
    found
}

async fn run(db: &Db, select: &Select<'_>, group: &Group) -> Result<Vec<GroupRow>, StoreError> {
    macro_rules! fetch {
        ($db:expr, $sql:expr) => {{
            let pool = $db.pool_of(select.collection.partition, Reads::Scans);
            let rows = bound!($sql).fetch_all(pool.reads()).await?;
            rows.iter().map(|row| read(row, row.try_get("count")?, group)).collect()
        }};
    }
    match db {
        Db::Sqlite(db) => fetch!(db, statement::<SqliteDialect>(select, group)),
        Db::Postgres(db) => fetch!(db, statement::<PostgresDialect>(select, group)),
    }
}

fn statement<D: Dialect>(select: &Select<'_>, group: &Group) -> Sql {
    let select = &Select { accounts: Accounts::VisibleJoined, ..select.clone() };
    let numbered = || group.by.iter().enumerate();
    let positions: Vec<_> = numbered().map(|(n, _)| D::position(&n.to_string())).collect();
    let columns: Vec<_> = numbered().map(|(n, _)| format!("s.class{n}, s.num{n}, s.txt{n}")).collect();
    let mut sql = Sql::new();
    let keys: Vec<_> = numbered().map(|(n, key)| key_columns::<D>(&mut sql, key, n, select)).collect();
    sql.push(format_args!(
        "SELECT {}, count(*) AS count FROM (SELECT {}",
        positions.join(", "),
        keys.join(", ")
    ));
    select.write_from::<D>(&mut sql);
    let order = group.order.iter().map(|(of, direction)| {
        let (word, _) = direction_words(*direction);
        match of {
            GroupOrder::Count => format!("count(*) {word}"),
            // The label of a bucket is NULL without a time, and NULLs have no place that both databases agree on.
            GroupOrder::Key(n) => {
                format!("s.class{n} {word}, s.num{n} {word}, s.txt{n} IS NULL, s.txt{n} {word}")
            }
        }
    });
    let order = order.collect::<Vec<_>>().join(", ");
    let limit = sql.bind(Value::Integer(i64::from(group.limit)));
    sql.push(format_args!(") s GROUP BY {} ORDER BY {order} LIMIT {limit}", columns.join(", ")));
    sql
}

/// The class, the number and the text of a key.
fn key_columns<D: Dialect>(sql: &mut Sql, key: &GroupKey, n: usize, select: &Select<'_>) -> String {
    let text = |text: String| (Classes::INDEXED.text.to_string(), "NULL".to_owned(), text);
    let (class, num, txt) = match &key.value {
        GroupValue::Did => text("d.did".into()),
        GroupValue::Rkey => text("r.rkey".into()),
        GroupValue::Collection => {
            let collection = sql.bind(Value::Text(select.nsid.as_str().to_owned()));
            text(format!("CAST({collection} AS text)"))
        }
        GroupValue::IndexedAt(None) => {
            (Classes::INDEXED.number.to_string(), "r.indexed_at".into(), "CAST(NULL AS text)".into())
        }
        GroupValue::IndexedAt(Some(bucket)) => text(D::bucket_of_micros("r.indexed_at", *bucket)),
        GroupValue::Time(path, bucket) => {
            let Keys { txt, .. } = D::keys("r.record", path, Classes::INDEXED);
            text(D::bucket_of_text(&txt, *bucket))
        }
        GroupValue::Field(path) => {
            let Keys { class, num, txt } = D::keys("r.record", path, Classes::INDEXED);
            let list = D::short_list("r.record", path);
            (
                format!("(CASE WHEN {list} IS NULL THEN {class} ELSE {LIST} END)"),
                num,
                format!("coalesce({txt}, {list})"),
            )
        }
    };
    format!("{class} AS class{n}, {num} AS num{n}, {txt} AS txt{n}")
}

fn read(row: &impl PositionRow, count: i64, group: &Group) -> Result<GroupRow, StoreError> {
    let value = |(n, key): (usize, &GroupKey)| {
        let (class, text) = row.position(0, n)?;
        Ok::<_, sqlx::Error>(text.and_then(|text| value(&key.value, class, text)))
    };
    let keys = group.by.iter().enumerate().map(value).collect::<Result<_, _>>()?;
    Ok(GroupRow { keys, count: count.unsigned_abs() })
}

fn value(of: &GroupValue, class: i64, text: String) -> Option<Json> {
    match of {
        GroupValue::IndexedAt(None) => Some(Timestamp(text.parse().ok()?).to_string().into()),
        GroupValue::Field(_) => {
            let Classes { number, text: texts, boolean } = Classes::INDEXED;
            match class {
                _ if class == number => number_of(&text),
                _ if class == texts => Some(text.into()),
                _ if class == boolean => Some((text == "1").into()),
                LIST => serde_json::from_str(&text).ok(),
                _ => None,
            }
        }
        GroupValue::Did
        | GroupValue::Collection
        | GroupValue::Rkey
        | GroupValue::IndexedAt(Some(_))
        | GroupValue::Time(..) => Some(text.into()),
    }
}

/// A number of a decimal text. Both databases count 1 and 1.0 as equal, so a whole number is an integer.
fn number_of(text: &str) -> Option<Json> {
    let whole = match text.split_once('.') {
        Some((whole, fraction)) if fraction.bytes().all(|digit| digit == b'0') => whole,
        _ => text,
    };
    if let Ok(whole) = whole.parse::<i64>() {
        return Some(whole.into());
    }
    let number: f64 = text.parse().ok()?;
    // Doubles of this size are whole, and fit.
    if number.fract() == 0.0 && number.abs() < 9e18 {
        return Some((number as i64).into());
    }
    serde_json::Number::from_f64(number).map(Json::Number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_the_same_from_both_databases() {
        for (sqlite, postgres, expected) in [
            ("1", "1.00000000000000000000", json!(1)),
            ("1e0", "1.00000000000000000000", json!(1)),
            ("-5e-1", "-0.50000000000000000000", json!(-0.5)),
            ("9007199254740993", "9007199254740993.00000000000000000000", json!(9_007_199_254_740_993_i64)),
            ("1e30", "1000000000000000000000000000000.00000000000000000000", json!(1e30)),
        ] {
            assert_eq!(number_of(sqlite), Some(expected.clone()));
            assert_eq!(number_of(postgres), Some(expected));
        }
    }
}
