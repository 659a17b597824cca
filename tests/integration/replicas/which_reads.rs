//! The reads that a replica answers: with a replica that is held back, the result of a read shows where it ran.

use http::Method;
use serde_json::{Value, json};

use super::{DATABASE, PATIENT, go_on, hold, reads, servers, wait_until_used, world};
use crate::fixtures::{ALICE, BOB, LIST, NOTES};
use crate::support::app::App;
use crate::support::instance::{Instance, procedure_lexicon, query_lexicon};
use crate::support::oauth_pds::OauthPds;

const READ: &str = "com.example.read";
const ASK: &str = "com.example.ask";

/// Reads in each way, and counts the notes that are found.
const SCRIPT: &str = "function handle()
    local subject = params.subject
    return {
        query = #db.query({ collection = collection }).records,
        filtered = #db.query({ collection = collection, filter = { field = 'text', op = '=', value = 'same' } }).records,
        got = (db.get(params.first) and 1 or 0) + (db.get(params.second) and 1 or 0),
        count = db.count(collection),
        backlinks = #db.backlinks({ collection = collection, uri = subject }).records,
        search = #db.search({ collection = collection, field = 'text', query = 'same' }).records,
        nested = #json.decode(xrpc.query('com.example.listNotes', {}).body).records,
        raw = db.raw('SELECT count(*) AS n FROM records', {})[1].n,
    }
end";

/// Like [`SCRIPT`], for a procedure.
const PROCEDURE: &str = "function handle()
    return { count = db.count(collection), nested = #json.decode(xrpc.query('com.example.listNotes', {}).body).records }
end";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_read_from_the_replica_and_everything_else_from_the_primary() {
    let (primary, replica) = servers(&[]).await;
    let mut world = world(&primary, &replica.url(DATABASE), &[PATIENT]).await;
    let subject = format!("at://{BOB}/{NOTES}/subject");
    let note = json!({ "text": "same", "subject": { "uri": subject, "cid": "bafyreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy" } });
    let one = world.note(ALICE, "one", note.clone()).await;
    let server = &world.server;
    server.upload(query_lexicon(READ), Some(NOTES)).await;
    server.upload(procedure_lexicon(ASK), Some(NOTES)).await;
    server.bind(READ, SCRIPT).await;
    server.bind_to(&format!("xrpc.procedure:{ASK}"), PROCEDURE).await;
    let pds = OauthPds::start().await;
    world.plc.host(BOB, &pds.url());
    let app = App::confidential(server, "one").await;
    let device = app.device(server, &pds, BOB, json!({})).await;
    wait_until_used(server, true).await;
    server
        .eventually("the replica has the note", async |server| {
            server.xrpc(LIST).await.body["records"].as_array().is_some_and(|found| found.len() == 1)
        })
        .await;

    hold(&primary, &replica).await;
    let two = format!("at://{ALICE}/{NOTES}/two");
    world.push(|at, rev| {
        let mut record = note.clone();
        record["$type"] = json!(NOTES);
        let place = belvedere_standins::jetstream::Place { did: ALICE, collection: NOTES, rkey: "two", rev };
        belvedere_standins::jetstream::Frame::create(at, place, &record)
    });
    let server = &world.server;
    server.eventually("the primary has both", async |server| server.records().await == 2).await;

    let before = reads(server).await;
    // A replica that answered late is not used for a moment.
    let is_old =
        async |server: &Instance| server.xrpc(LIST).await.body["records"].as_array().unwrap().len() == 1;
    server.eventually("lists come from the replica", is_old).await;
    assert_eq!(server.xrpc(&format!("{LIST}?uri={two}")).await.status, 404);
    assert_eq!(server.xrpc(&format!("{LIST}?uri={one}")).await.status, 200);
    assert!(reads(server).await >= before + 3);
    let parameters = |text: &str| text.replace(':', "%3A").replace('/', "%2F");
    let query = format!(
        "{READ}?subject={}&first={}&second={}",
        parameters(&subject),
        parameters(&one),
        parameters(&two)
    );
    let expected = |of_replica: u64| {
        json!({ "query": of_replica, "filtered": of_replica, "got": of_replica, "count": of_replica,
            "backlinks": of_replica, "search": of_replica, "nested": of_replica, "raw": 2 })
    };
    server
        .eventually("scripts read from the replica", async |server| {
            server.xrpc(&query).await.body == expected(1)
        })
        .await;
    // The admin API, procedures and dry runs, with what they call.
    let records = server.admin(Method::GET, &format!("/admin/records?collection={NOTES}"), None).await;
    assert_eq!(records.body["records"].as_array().unwrap().len(), 2, "{}", records.text);
    let asked = device.request(server, Method::POST, &format!("/xrpc/{ASK}"), Some(&json!({}))).await;
    assert_eq!(asked.body, json!({ "count": 2, "nested": 2 }), "{}", asked.text);
    let body = json!({ "id": format!("xrpc.query:{READ}"), "body": SCRIPT, "event": { "type": "request",
        "params": { "subject": subject, "first": one, "second": two } } });
    let dry = server.admin(Method::POST, "/admin/scripts/dry-run", Some(&body)).await;
    assert_eq!(dry.body["result"]["body"], expected(2), "{}", dry.text);

    go_on(&replica).await;
    server
        .eventually("the replica has both", async |server| server.xrpc(&query).await.body == expected(2))
        .await;
    // The connections are still used.
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'belvedere' AND query LIKE '%FROM records%'";
    assert!(super::value::<i64>(&replica, sql).await > 0);
    assert_eq!(super::first(server).await["repeated_reads"], Value::from(0));
}
