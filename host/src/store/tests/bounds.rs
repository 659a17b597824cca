//! Lists for the dashboard have a length.

use super::instance_oauth_keys::session;

use crate::store::{account_sessions, on, sizes};

on_both! {
    async fn five_hundred_sessions_are_listed(db) {
        for n in 0..501 {
            session(&db, &format!("s{n}"), "kid").await;
        }
        let listed = account_sessions::list(&db, "did:plc:a").await.unwrap();
        assert_eq!(listed.len(), 500);
        assert!(account_sessions::list(&db, "did:plc:b").await.unwrap().is_empty());
    }

    async fn the_fifty_largest_tables_are_listed(db) {
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
}
