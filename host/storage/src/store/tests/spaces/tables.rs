//! The tables of spaces, as the databases' catalogs list them.

use super::deletion::TABLES;
use crate::store::Db;
use crate::store::script_sql::guard;
use crate::store::testing;

/// A table that a migration adds must be emptied when a space is deleted, and no script's SQL may see it.
#[tokio::test]
async fn every_table_is_emptied_and_hidden_from_scripts() {
    let db = testing::sqlite().await;
    let Db::Sqlite(sqlite) = &*db else { unreachable!("it is SQLite") };
    let sql = "SELECT m.name FROM sqlite_schema m, pragma_table_info(m.name) c WHERE m.type = 'table' AND c.name = 'space_id'";
    let mut found: Vec<String> = sqlx::query_scalar(sql).fetch_all(&sqlite.reader).await.unwrap();
    found.sort();
    let mut emptied = TABLES.to_vec();
    emptied.sort_unstable();
    assert_eq!(found, emptied);
    let views = guard::VIEWS;
    assert!(views.iter().all(|view| !view.contains("space")), "{views:?}");
}
