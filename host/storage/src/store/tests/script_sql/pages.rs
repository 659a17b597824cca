//! Pages of a SELECT have all of its rows, each once, in the same order on both databases.

use super::*;
use crate::query::{Direction, SqlPage};
use crate::store::script_sql::read_page;

on_both!(pages_have_all_rows_in_order, pages_of_other_statements_are_refused);

fn order(names: &[&'static str]) -> Vec<(&'static str, Direction)> {
    let of = |name: &&'static str| match name.strip_prefix('-') {
        Some(name) => (name, Direction::Desc),
        None => (*name, Direction::Asc),
    };
    names.iter().map(of).collect()
}

/// All rows, read in pages.
async fn all_pages(db: &Db, sql: &str, params: &[Value], names: &[&'static str], limit: i64) -> Vec<Value> {
    let (mut found, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let page = SqlPage::parse(order(names), Some(limit), cursor.as_deref()).unwrap();
        let read =
            read_page(db, &US, sql, params, &page).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        let rows: Vec<Value> = serde_json::from_slice(&read.answer.rows).unwrap();
        assert!(rows.len() == read.answer.count && rows.len() <= limit as usize);
        found.extend(rows);
        match read.next {
            Some(next) => cursor = Some(SqlPage::cursor(&next).unwrap()),
            None => return found,
        }
    }
}

async fn pages_have_all_rows_in_order(db: TestDb) {
    ask(&db, "CREATE TABLE script_p (id integer PRIMARY KEY, n numeric, x double precision, t text)", &[])
        .await
        .unwrap();
    let numbers = [json!(1), json!(0.1), json!(1.25), json!(9_007_199_254_740_993_i64), Value::Null];
    let texts = [json!("a"), json!("B"), json!("ä"), json!("it's"), Value::Null];
    for id in 0..50 {
        let (n, t) = (&numbers[id * 7 % 5], &texts[id / 5 % 5]);
        let x = if id % 4 == 0 { Value::Null } else { json!(1.0 / (id % 9 + 1) as f64) };
        ask(&db, "INSERT INTO script_p VALUES ($1, $2, $3, $4)", &[json!(id), n.clone(), x, t.clone()])
            .await
            .unwrap();
    }
    for names in
        [&["id"][..], &["-n", "t", "id"], &["t", "-n", "-id"], &["x", "-id"], &["-x", "-t", "n", "id"]]
    {
        let by: Vec<_> = order(names)
            .into_iter()
            .map(|(name, direction)| {
                format!("{name} {} NULLS LAST", if direction == Direction::Asc { "ASC" } else { "DESC" })
            })
            .collect();
        let sql = "SELECT id, n, x, t FROM script_p WHERE id >= $1";
        let whole = rows(&db, &format!("{sql} ORDER BY {}", by.join(", ")), &[json!(3)]).await;
        for limit in [1, 7, 500] {
            let found = all_pages(&db, sql, &[json!(3)], names, limit).await;
            assert_eq!(Value::from(found), whole, "{names:?} by {limit}");
        }
    }
    // Its own ORDER BY with a LIMIT, a comment at the end, and a name in capitals.
    let sql = "SELECT id AS Number FROM script_p ORDER BY id DESC LIMIT 5 -- the last five";
    let found = all_pages(&db, sql, &[], &["Number"], 2).await;
    let found: Vec<_> =
        found.iter().map(|row| row.as_object().unwrap().values().next().unwrap().clone()).collect();
    assert_eq!(found, [45, 46, 47, 48, 49].map(|id| json!(id)));
}

async fn pages_of_other_statements_are_refused(db: TestDb) {
    let page = SqlPage::parse(order(&["n"]), None, None).unwrap();
    for (sql, message) in [
        ("DELETE FROM script_x", "a statement other than SELECT in db.page can't be used"),
        ("SELECT 1 AS m", "there is no column page_rows.n"),
        ("SELECT sql AS n FROM sqlite_schema", "can't be used"),
        ("SELECT 1 AS n; SELECT 2 AS n", "only one statement can be run at a time"),
    ] {
        let error = read_page(&db, &US, sql, &[], &page).await.unwrap_err().to_string();
        assert!(error.contains(message), "{sql}: {error}");
    }
}
