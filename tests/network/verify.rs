//! A server that missed events catches up by itself, and `belvedere verify` finds the index equal to the network.

use belvedere_storage::store::status::BackfillStatus;
use belvedere_storage::store::{Db, backfill};
use serde_json::json;

use crate::database::Database;
use crate::index::{equals_pds, records, track};
use crate::network::network;
use crate::server::Server;
use crate::wait::until;

const NOTE: &str = "com.example.verify.note";

/// Hours by which the cursor is moved back: a gap of seconds would not be recognised.
const HOURS: i64 = 2;

crate::on_both!(a_server_that_missed_events_catches_up);
async fn a_server_that_missed_events_catches_up(database: Database) {
    let network = network().await;
    let collection =
        format!("{NOTE}{}", if database.url.starts_with("sqlite") { "Sqlite" } else { "Postgres" });
    let note = |n: usize| json!({ "$type": collection, "text": format!("note {n}"), "n": n });
    let (alice, bob, carol, dave) =
        (network.account().await, network.account().await, network.account().await, network.account().await);
    let (url, jetstream) = (database.url.clone(), network.start_jetstream().await);
    let mut server = Server::with(network, database, &[("JETSTREAM_URL", &jetstream)]);
    server.start().await;
    let key = server.create_key(&alice.did);
    track(&server, &key, &collection).await;
    for account in [&alice, &bob, &carol, &dave] {
        for n in 0..5 {
            account.put(&collection, &format!("k{n}"), note(n)).await;
        }
    }
    let accounts = [alice, bob, carol, dave];
    equals_pds(&server, &key, &collection, &accounts).await;
    let verify = ["verify", "--collection", &*collection, "--wait", "10"];
    assert_eq!(server.try_cli(&verify), (Some(0), String::new()));

    server.stop().await;
    let [alice, bob, carol, dave] = &accounts;
    alice.delete(&collection, "k1").await;
    alice.put(&collection, "k2", note(22)).await;
    alice.put(&collection, "k9", note(9)).await;
    for n in 0..5 {
        bob.delete(&collection, &format!("k{n}")).await;
    }
    carol.deactivate().await;
    dave.delete_account().await;
    network.forget_events(&jetstream).await;
    let db = Db::open(&url, 1).await.unwrap();
    let sql = sqlx::AssertSqlSafe(format!(
        "UPDATE stream_cursors SET cursor = cursor - {} WHERE source = 'jetstream'",
        HOURS * 3_600_000_000
    ));
    match &db {
        Db::Sqlite(db) => drop(sqlx::raw_sql(sql).execute(&db.writer).await.unwrap()),
        Db::Postgres(db) => drop(sqlx::raw_sql(sql).execute(&db.pool).await.unwrap()),
    }
    server.start().await;
    // The first event shows that those before are gone.
    alice.put(&collection, "k8", note(8)).await;
    until("the catch-up is completed", || async {
        let jobs = backfill::list(&db).await.unwrap();
        match jobs.iter().find(|job| job.kind == "catch_up") {
            Some(job) if job.status == BackfillStatus::Completed && job.error.is_none() => Ok(()),
            found => Err(format!("{found:?}")),
        }
    })
    .await;
    for gone in [carol, dave] {
        assert!(records(&server, &key, &collection, std::slice::from_ref(gone)).await.is_empty());
    }
    equals_pds(&server, &key, &collection, &accounts[..2]).await;
    assert_eq!(server.try_cli(&verify), (Some(0), String::new()));
}
