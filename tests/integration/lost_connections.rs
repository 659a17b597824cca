//! The server goes on when its connections to PostgreSQL are cut: no read fails, and no event is lost.

use belvedere_standins::postgres;
use http::Method;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use crate::fixtures::{ALICE, LIST, NOTES, World};
use crate::support::app::App;
use crate::support::instance::{Instance, procedure_lexicon, query_lexicon};
use crate::support::oauth_pds::OauthPds;

const READ: &str = "com.example.read";
const PUT: &str = "com.example.put";

/// Concurrent requests, so that the pools have many idle connections.
const CONCURRENT: usize = 24;

async fn world() -> (World, PgConnection) {
    let url = postgres::create_database().await;
    let world = World::on(&url, None).await.with_notes().await;
    world.server.upload(query_lexicon(READ), Some(NOTES)).await;
    let script = "function handle()
        local sum = db.raw('SELECT count(*) AS n FROM records', {})[1].n
        return { sum = sum, count = db.count(collection), found = db.search({ collection = collection, field = 'text', query = 'a' }) }
    end";
    world.server.bind(READ, script).await;
    (world, PgConnection::connect(&url).await.unwrap())
}

/// Ends all sessions of the database but the one of `admin`, and waits until they have ended.
async fn cut(admin: &mut PgConnection) {
    let sql = "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity \
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let ended: i64 = sqlx::query_scalar(sql).fetch_one(admin).await.unwrap();
    assert!(ended > 2, "{ended}");
}

/// Reads with each of the pools: lists, the admin API, scripts' SQL and scans.
async fn read(server: &Instance, n: usize) {
    let answer = match n % 3 {
        0 => server.xrpc(LIST).await,
        1 => server.admin(Method::GET, "/admin/lexicons", None).await,
        _ => server.xrpc(READ).await,
    };
    assert_eq!(answer.status, 200, "read {n}: {}", answer.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_are_repeated_on_a_new_connection() {
    let (world, mut admin) = world().await;
    for round in 0..4 {
        futures_util::future::join_all((0..CONCURRENT).map(|n| read(&world.server, n))).await;
        cut(&mut admin).await;
        for n in 0..32 {
            // Each round begins with another pool.
            read(&world.server, n + round).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_that_saves_and_reads_succeeds() {
    let (world, mut admin) = world().await;
    let server = &world.server;
    server.upload(procedure_lexicon(PUT), Some(NOTES)).await;
    let script = "function handle()
        local record = Record(collection, { text = input.text })
        record:save()
        return { text = db.get(record._uri).text }
    end";
    server.bind_to(&format!("xrpc.procedure:{PUT}"), script).await;
    let pds = OauthPds::start().await;
    world.plc.host(ALICE, &pds.url());
    let app = App::confidential(server, "one").await;
    let device = app.device(server, &pds, ALICE, json!({})).await;
    for n in 0..8 {
        futures_util::future::join_all((0..CONCURRENT).map(|n| read(server, n))).await;
        cut(&mut admin).await;
        let body = json!({ "text": n.to_string() });
        let answer = device.request(server, Method::POST, &format!("/xrpc/{PUT}"), Some(&body)).await;
        assert_eq!((answer.status.as_u16(), &answer.body["text"]), (200, &body["text"]), "{}", answer.text);
    }
    assert_eq!(server.records().await, 8);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_wait_until_they_can_be_stored() {
    let (world, mut admin) = world().await;
    let server = &world.server;
    let mut sql = async |sql: &str| {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut admin).await.unwrap();
    };
    sql("ALTER TABLE events RENAME TO away").await;
    let body = json!({ "value": "Waiting" });
    let answer = server.admin(Method::PUT, "/admin/settings/app_name", Some(&body)).await;
    assert_eq!(answer.status, 204, "{}", answer.text);
    server
        .eventually("the event is kept", async |server| server.log().contains("events can't be stored"))
        .await;
    sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() \
         AND pid <> pg_backend_pid()")
    .await;
    sql("ALTER TABLE away RENAME TO events").await;
    let path = "/admin/events?event_type=setting.updated";
    let events = server.admin(Method::GET, path, None).await;
    let subjects: Vec<&Value> =
        events.body["events"].as_array().unwrap().iter().map(|e| &e["subject"]).collect();
    assert_eq!(subjects, [&json!("app_name")], "{}", events.text);
}
