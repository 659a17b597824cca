//! Tables of another product, read from either database.

use crate::store::foreign::ForeignDb;
use crate::store::scripts::{self, NewScript};
use crate::store::testing::TestDb;
use belvedere_base::clock::Timestamp;

on_both!(a_table_is_read_as_texts);

async fn a_table_is_read_as_texts(db: TestDb) {
    let body = "x = 'é \"quoted\"'\n";
    for (id, description) in [("lib:a", None), ("lib:b", Some("with a text".to_owned()))] {
        let script =
            NewScript { id: id.to_owned(), body: body.to_owned(), description, ..NewScript::default() };
        scripts::upsert(&db, &script, Timestamp(7)).await.unwrap();
    }
    let mut foreign = ForeignDb::open(&db.url).await.unwrap();
    let mut rows =
        foreign.rows("scripts", &["id", "body", "description", "created_at", "no_column"]).await.unwrap();
    rows.sort_by_key(|row| row["id"].clone());
    let values =
        |at: usize| rows[at].iter().map(|(name, value)| (name.as_str(), value.as_str())).collect::<Vec<_>>();
    assert_eq!(values(0), [("body", body), ("created_at", "7"), ("id", "lib:a")]);
    assert_eq!(
        values(1),
        [("body", body), ("created_at", "7"), ("description", "with a text"), ("id", "lib:b")]
    );
    assert_eq!(foreign.count("scripts").await.unwrap(), 2);
    assert_eq!(foreign.rows("no_table", &["id"]).await.unwrap().len(), 0);
    assert_eq!(foreign.rows("scripts", &["'; DROP TABLE scripts; --"]).await.unwrap().len(), 0);
    foreign.close().await.unwrap();
    assert!(scripts::get(&db, "lib:a").await.unwrap().is_some());
}
