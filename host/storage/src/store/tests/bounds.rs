//! Lists for the dashboard have a length, and SQLite is compiled as its settings assume.

use super::instance_oauth_keys::session;
use crate::store::testing::TestDb;

use crate::store::{Db, account_sessions, on, sizes};

on_both!(five_hundred_sessions_are_listed, the_fifty_largest_tables_are_listed);

async fn five_hundred_sessions_are_listed(db: TestDb) {
    for n in 0..501 {
        session(&db, &format!("s{n}"), "kid").await;
    }
    let listed = account_sessions::list(&db, "did:plc:a").await.unwrap();
    assert_eq!(listed.len(), 500);
    assert!(account_sessions::list(&db, "did:plc:b").await.unwrap().is_empty());
}

async fn the_fifty_largest_tables_are_listed(db: TestDb) {
    for n in 0..60 {
        let sql = format!("CREATE TABLE further_{n} (a INTEGER)");
        on!(&*db, writer, |pool| {
            sqlx::query(sqlx::AssertSqlSafe(sql)).execute(pool).await.unwrap();
        });
    }
    let (_, tables) = sizes::read(&db).await.unwrap();
    assert_eq!(tables.len(), 50);
    let size = |table: &sizes::TableSize| table.bytes.unwrap() + table.index_bytes.unwrap();
    assert!(tables.windows(2).all(|pair| size(&pair[0]) >= size(&pair[1])), "{tables:?}");
}

/// With one page cache for all connections, `PRAGMA cache_size` would not be that of each (`.cargo/config.toml`, ADR 85).
#[tokio::test]
async fn sqlite_has_a_page_cache_for_each_connection() {
    let db = crate::store::testing::sqlite().await;
    let Db::Sqlite(sqlite) = &*db else { unreachable!("it is a SQLite database") };
    let sql = "SELECT compile_options FROM pragma_compile_options";
    let options: Vec<String> = sqlx::query_scalar(sql).fetch_all(&sqlite.reader).await.unwrap();
    assert!(!options.contains(&"ENABLE_MEMORY_MANAGEMENT".to_owned()), "{options:?}");
    assert!(options.contains(&"DEFAULT_MEMSTATUS=0".to_owned()), "{options:?}");
}
