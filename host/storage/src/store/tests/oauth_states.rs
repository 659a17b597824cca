//! OAuth flows in progress: each is used once; their number is limited by sender and by target.

use crate::store::Db;
use crate::store::oauth_states::{self, Bounds, NewState};
use crate::store::testing::TestDb;
use belvedere_base::clock::Timestamp;

const BOUNDS: Bounds = Bounds { of_sender: 2, of_target: 3, all: 5 };

async fn put(db: &Db, id: &str, at: i64, sender: &str, target: &str) -> bool {
    let state = NewState { id, sealed: id.as_bytes(), expires_at: Timestamp(at + 100), sender, target };
    oauth_states::put(db, &state, &BOUNDS, Timestamp(at)).await.unwrap()
}

async fn left(db: &Db, ids: &[&str], now: i64) -> Vec<String> {
    let mut left = Vec::new();
    for id in ids {
        let taken = oauth_states::take(db, id, Timestamp(now)).await.unwrap();
        left.extend(taken.map(|sealed| String::from_utf8(sealed).unwrap()));
    }
    left
}

on_both!(
    the_number_of_a_sender_is_limited,
    over_the_limits_of_a_target_and_of_the_table_the_oldest_are_deleted
);

async fn the_number_of_a_sender_is_limited(db: TestDb) {
    assert!(put(&db, "a", 0, "x", "1").await && put(&db, "b", 0, "x", "2").await);
    assert!(!put(&db, "c", 0, "x", "3").await, "a third one");
    assert!(put(&db, "d", 0, "y", "3").await, "another sender");
    assert_eq!(oauth_states::count_of_sender(&db, "x", Timestamp(0)).await.unwrap(), 2);
    // Expired ones do not count, even before they are deleted.
    assert!(put(&db, "e", 100, "x", "3").await);
    assert_eq!(left(&db, &["a", "b", "c", "d", "e", "e"], 101).await, ["e"]);
}

async fn over_the_limits_of_a_target_and_of_the_table_the_oldest_are_deleted(db: TestDb) {
    for (n, id) in ["a", "b", "c", "d"].iter().enumerate() {
        assert!(put(&db, id, n as i64, id, "one").await);
    }
    for (n, id) in ["e", "f", "g"].iter().enumerate() {
        assert!(put(&db, id, 10 + n as i64, id, id).await);
    }
    assert_eq!(left(&db, &["a", "b", "c", "d", "e", "f", "g"], 20).await, ["c", "d", "e", "f", "g"]);
    assert!(put(&db, "h", 30, "h", "h").await);
    assert_eq!(oauth_states::prune(&db, Timestamp(129)).await.unwrap(), 0);
    assert_eq!(oauth_states::prune(&db, Timestamp(130)).await.unwrap(), 1);
}
