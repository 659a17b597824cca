//! Handles and PDSs of accounts, and the view `accounts` of scripts' SQL.

use serde_json::{Value, json};

use super::fixtures::*;
use crate::store::identities::{Account, Learned, accounts, forget, learn};
use crate::store::index::AccountStatus;
use crate::store::script_sql;
use crate::store::testing::TestDb;
use belvedere_base::clock::Timestamp;

on_both!(
    look_ups_at_the_same_time_do_not_deadlock,
    what_is_later_wins,
    a_handle_belongs_to_one_account,
    the_view_shows_accounts_that_are_not_hidden
);

fn learned(n: u32, handle: Option<&str>, known_at: i64) -> Learned {
    let pds = Some("https://pds.example".to_owned());
    Learned { did: did(n), handle: handle.map(str::to_owned), pds, known_at: Timestamp(known_at) }
}

async fn account(db: &TestDb, n: u32) -> Option<Account> {
    accounts(db, &[did(n)]).await.unwrap().remove(did(n).as_str())
}

async fn handle(db: &TestDb, n: u32) -> Option<String> {
    account(db, n).await.unwrap().handle
}

async fn what_is_later_wins(db: TestDb) {
    apply(&db, 10, vec![put(&uri(1, NOTE, "a"), 1, r#"{"n":1}"#)]).await;
    assert_eq!(account(&db, 1).await, Some(Account::default()));
    learn(&db, &[learned(1, Some("one.example"), 10), learned(7, Some("never.example"), 10)]).await.unwrap();
    assert_eq!(handle(&db, 1).await.as_deref(), Some("one.example"));
    assert_eq!(account(&db, 7).await, None, "no record of it was indexed");
    learn(&db, &[learned(1, Some("old.example"), 9)]).await.unwrap();
    assert_eq!(handle(&db, 1).await.as_deref(), Some("one.example"), "by an older document");

    assert_eq!(forget(&db, &[did(1), did(7)], Timestamp(20)).await.unwrap(), [did(1)]);
    let cleared = Account { known_at: Some(Timestamp(20)), ..Account::default() };
    assert_eq!(account(&db, 1).await, Some(cleared.clone()));
    learn(&db, &[learned(1, Some("one.example"), 15)]).await.unwrap();
    assert_eq!(account(&db, 1).await, Some(cleared), "another host has the old document");
    assert_eq!(forget(&db, &[did(1)], Timestamp(21)).await.unwrap(), []);
    learn(&db, &[learned(1, Some("new.example"), 25)]).await.unwrap();
    assert_eq!(handle(&db, 1).await.as_deref(), Some("new.example"));
    learn(&db, &[learned(1, None, 26)]).await.unwrap();
    let account = account(&db, 1).await.unwrap();
    assert_eq!((account.handle, account.pds.as_deref()), (None, Some("https://pds.example")));
    learn(&db, &[]).await.unwrap();
}

async fn a_handle_belongs_to_one_account(db: TestDb) {
    let notes = (1..=3).map(|n| put(&uri(n, NOTE, "a"), 1, r#"{"n":1}"#)).collect();
    apply(&db, 10, notes).await;
    let both = [learned(1, Some("one.example"), 10), learned(2, Some("two.example"), 10)];
    learn(&db, &both).await.unwrap();
    learn(&db, &[learned(3, Some("one.example"), 20)]).await.unwrap();
    assert_eq!((handle(&db, 1).await, handle(&db, 3).await.as_deref()), (None, Some("one.example")));
    assert_eq!(handle(&db, 2).await.as_deref(), Some("two.example"));
}

/// Hosts learn the same accounts in other orders, and their handles go from one to the other.
async fn look_ups_at_the_same_time_do_not_deadlock(db: TestDb) {
    const ACCOUNTS: u32 = 40;
    let notes = (0..ACCOUNTS).map(|n| put(&uri(n, NOTE, "a"), 1, r#"{"n":1}"#)).collect();
    apply(&db, 10, notes).await;
    let round = async |turn: u32| {
        let one = |n: u32| {
            let handle = format!("h{}.example", (n + turn) % ACCOUNTS);
            // The factors have no divisor in common with the number of accounts.
            learned(n * [1, 3, 7, 39][turn as usize % 4] % ACCOUNTS, Some(&handle), i64::from(turn))
        };
        let all: Vec<_> = (0..ACCOUNTS).map(one).collect();
        learn(&db, &all).await.unwrap();
    };
    for turn in 0..20 {
        tokio::join!(round(4 * turn), round(4 * turn + 1), round(4 * turn + 2), round(4 * turn + 3));
    }
}

async fn view(db: &TestDb, sql: &str) -> Value {
    let answer = script_sql::run(db, &US, sql, &[]).await.unwrap();
    serde_json::from_slice(&answer.rows).unwrap()
}

async fn the_view_shows_accounts_that_are_not_hidden(db: TestDb) {
    let notes = (1..=3).map(|n| put(&uri(n, NOTE, "a"), 1, r#"{"n":1}"#)).collect();
    apply(&db, 10, notes).await;
    learn(&db, &[learned(1, Some("one.example"), 10), learned(2, Some("two.example"), 10)]).await.unwrap();
    let one =
        json!({ "did": did(1), "handle": "one.example", "status": "active", "pds": "https://pds.example" });
    let three = json!({ "did": did(3), "status": "active" });
    set_status(&db, 2, AccountStatus::Deactivated).await;
    assert_eq!(view(&db, "SELECT * FROM accounts ORDER BY did").await, json!([one, three]));
    let join = "SELECT r.rkey FROM accounts a JOIN records r ON r.did = a.did WHERE a.handle = 'one.example'";
    assert_eq!(view(&db, join).await, json!([{ "rkey": "a" }]));
    let hidden = "SELECT count(*) AS n FROM accounts WHERE handle = 'two.example'";
    assert_eq!(view(&db, hidden).await, json!([{ "n": 0 }]));
    // A common table expression of that name is the script's own.
    let own = "WITH accounts AS (SELECT 1 AS n) SELECT n FROM accounts";
    assert_eq!(view(&db, own).await, json!([{ "n": 1 }]));
    assert!(script_sql::run(&db, &US, "UPDATE accounts SET handle = 'x.example'", &[]).await.is_err());

    set_status(&db, 1, AccountStatus::Deleted).await;
    assert_eq!(account(&db, 1).await, Some(Account { is_hidden: true, ..Account::default() }));
    learn(&db, &[learned(1, Some("one.example"), 30)]).await.unwrap();
    assert_eq!(handle(&db, 1).await, None, "nothing is kept of a deleted account");
}
