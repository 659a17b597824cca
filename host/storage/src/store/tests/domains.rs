//! The instance's origins.

use crate::store::testing::TestDb;
use crate::store::{Db, domains};
use belvedere_base::clock::Timestamp;

/// The origins, the primary one with a star.
async fn shown(db: &Db) -> Vec<String> {
    let rows = domains::list(db).await.unwrap();
    rows.into_iter().map(|row| format!("{}{}", row.url, if row.is_primary { "*" } else { "" })).collect()
}

on_both!(a_changed_public_url_becomes_the_primary_once);

async fn a_changed_public_url_becomes_the_primary_once(db: TestDb) {
    let (first, second) = ("https://a.example", "https://b.example");
    domains::set_origin(&db, "1", first, Timestamp(1)).await.unwrap();
    assert_eq!(shown(&db).await, ["https://a.example*"]);
    // PUBLIC_URL was changed.
    domains::set_origin(&db, "2", second, Timestamp(2)).await.unwrap();
    assert_eq!(shown(&db).await, ["https://a.example", "https://b.example*"]);
    // An admin's choice survives a start.
    assert!(domains::set_primary(&db, "1", Timestamp(3)).await.unwrap());
    domains::set_origin(&db, "3", second, Timestamp(4)).await.unwrap();
    assert_eq!(shown(&db).await, ["https://a.example*", "https://b.example"]);
    // Changed, to an origin that is known, and back.
    for (url, expected) in [
        (first, ["https://a.example*", "https://b.example"]),
        (second, ["https://a.example", "https://b.example*"]),
        (first, ["https://a.example*", "https://b.example"]),
    ] {
        domains::set_origin(&db, "4", url, Timestamp(5)).await.unwrap();
        assert_eq!(shown(&db).await, expected);
    }
}
