//! Inputs that are not records.

use std::time::Duration;

use ::http::Method;
use anyhow::Context as _;
use belvedere_base::clock::Clock;
use belvedere_base::random::Random;
use belvedere_protocol::crypto::{Algorithm, PrivateKey};
use belvedere_standins::cars::CarFault;
use belvedere_standins::jetstream::{Frame, synthetic_did, synthetic_record};
use belvedere_standins::labeler::{FakeLabeler, Label, LabelFault};
use belvedere_standins::repos::{Fault, Site};
use serde_json::{Map, Value, json};

use super::Row;
use super::scene::Scene;
use crate::Plan;
use crate::server::COLLECTION;

/// Bytes of the largest lexicon of a publisher.
const LEXICON_BYTES: usize = 256 << 10;

/// Bytes of the largest frame of the stream.
const FRAME_BYTES: usize = 16 << 20;

/// Bytes of the largest JSON body of a request.
const BODY_BYTES: usize = 1 << 20;

const LABELER: &str = "did:plc:labelerlabelerlabelerlab";

/// Maximum time of a labeler or a backfill.
const TIMEOUT: Duration = Duration::from_mins(2);

pub async fn measure(scene: &Scene, plan: &Plan) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let is_wanted = |case: &str| case.contains(&plan.only);
    if is_wanted("lexicon") {
        rows.extend(lexicons(scene).await?);
    }
    if is_wanted("frame") {
        rows.extend(frames(scene).await?);
    }
    if is_wanted("label") {
        rows.extend(labels(scene).await?);
    }
    if is_wanted("CAR") || is_wanted("page") {
        rows.extend(repos(scene).await?);
    }
    if is_wanted("request") {
        rows.extend(requests(scene).await?);
    }
    Ok(rows)
}

/// A definition of a lexicon, by its number.
type Definition<'a> = &'a dyn Fn(usize) -> (String, Value);

async fn lexicons(scene: &Scene) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let chain = |n: usize| (format!("d{n:05}"), json!({ "type": "ref", "ref": format!("#d{:05}", n + 1) }));
    let union = |n: usize| (format!("d{n:05}"), json!({ "type": "union", "refs": ["#d00001"] }));
    let mut nested = json!({ "type": "array", "items": { "type": "integer" } });
    for _ in 0..60 {
        nested = json!({ "type": "array", "items": nested });
    }
    let deep = |n: usize| (format!("d{n:05}"), nested.clone());
    let shapes = [
        ("a chain of references", &chain as Definition<'_>),
        ("unions", &union),
        ("arrays inside each other", &deep),
    ];
    for (n, (case, definition)) in shapes.into_iter().enumerate() {
        let nsid = format!("com.example.load.lexicon{n}");
        let main =
            json!({ "type": "record", "key": "any", "record": { "type": "object", "properties": {} } });
        let one =
            json!({ "lexicon": 1, "id": nsid, "defs": Map::from_iter([definition(0)]) }).to_string().len();
        let count = (LEXICON_BYTES - 1_000) / one.saturating_sub(60);
        let mut definitions: Map<String, Value> = (0..count).map(definition).collect();
        definitions.insert("main".to_owned(), main);
        let lexicon = json!({ "lexicon": 1, "id": nsid, "defs": definitions });
        let bytes = lexicon.to_string().len();
        // The stream is subscribed again. Its replay is no cost of the lexicon.
        scene.stream.forget();
        let send = async {
            let body = json!({ "lexicon_json": lexicon, "backfill": false });
            let answer = scene.server.admin(Method::POST, "/admin/lexicons", Some(&body)).await;
            eprintln!("{case}: {} {}", answer.status, answer.text.get(..200).unwrap_or(&answer.text));
            scene.wait_for_stream_of(&nsid).await;
            Ok(())
        };
        rows.push(scene.row(&format!("lexicon: {case}"), bytes, 1, send).await?);
    }
    Ok(rows)
}

async fn frames(scene: &Scene) -> anyhow::Result<Vec<Row>> {
    let did = synthetic_did(777_777);
    let event = |more: &str| {
        let now = Clock::system().now().0;
        format!(r#"{{"did":"{did}","time_us":{now},"kind":"commit",{more}}}"#)
    };
    let numbers = "1,".repeat(FRAME_BYTES / 2 - 1_000);
    let deep = FRAME_BYTES / 2 - 1_000;
    let shapes = [
        (
            "a commit of another collection with 8,000,000 numbers",
            event(&format!(
                r#""commit":{{"rev":"3laaaaaaaaa2a","operation":"create","collection":"com.example.other","rkey":"a","record":{{"a":[{numbers}1]}}}}"#
            )),
        ),
        (
            "a record of 8,000,000 numbers, which is too large",
            event(&format!(
                r#""commit":{{"rev":"3laaaaaaaaa2a","operation":"create","collection":"{COLLECTION}","rkey":"a","record":{{"a":[{numbers}1]}}}}"#
            )),
        ),
        (
            "8,000,000 arrays inside each other",
            event(&format!(r#""x":{}{}"#, "[".repeat(deep), "]".repeat(deep))),
        ),
    ];
    let mut rows = Vec::new();
    for (case, text) in shapes {
        let bytes = text.len();
        anyhow::ensure!(bytes <= FRAME_BYTES, "{case}: {bytes}");
        let send = async {
            let time_us = Clock::system().now().0;
            scene.stream.push(Frame { time_us, collection: Some(COLLECTION.into()), text: text.into() });
            let rkey = scene.push(&did, COLLECTION, &synthetic_record(COLLECTION, 1));
            scene.wait_for(&did, &rkey).await;
            Ok(())
        };
        rows.push(scene.row(&format!("frame: {case}"), bytes, 1, send).await?);
    }
    Ok(rows)
}

async fn labels(scene: &Scene) -> anyhow::Result<Vec<Row>> {
    const MESSAGES: u32 = 5;
    let key = PrivateKey::generate(Algorithm::Es256k, &Random::system());
    let signing = PrivateKey::from_bytes(Algorithm::Es256k, &*key.to_bytes())?;
    let sender = FakeLabeler::start(LABELER, move |bytes| signing.sign(bytes).to_vec()).await;
    let method = json!({ "id": format!("{LABELER}#atproto_label"), "type": "Multikey", "controller": LABELER,
        "publicKeyMultibase": key.public().to_multikey() });
    scene.network.document(
        LABELER,
        json!({ "id": LABELER, "verificationMethod": [method], "service": [
        { "id": "#atproto_labeler", "type": "AtprotoLabeler", "serviceEndpoint": sender.url() }] }),
    );
    let answer = scene.server.admin(Method::POST, "/admin/labelers", Some(&json!({ "did": LABELER }))).await;
    anyhow::ensure!(answer.status.is_success(), "{}", answer.text);
    let mut rows = Vec::new();
    for (case, fault, count) in [
        ("4,900 right ones", None, 4_900),
        ("4,900 with forged signatures", Some(LabelFault::ForgesSignatures), 4_900),
    ] {
        sender.set_fault(fault);
        let uris: Vec<String> =
            (0..count).map(|n| format!("at://{}/{COLLECTION}/{n}", synthetic_did(n))).collect();
        let labels: Vec<_> =
            uris.iter().map(|uri| Label::new(uri, "spam", "2024-05-01T12:00:00.000Z")).collect();
        let send = async {
            let mut end = 0;
            for _ in 0..MESSAGES {
                end = sender.send(&labels);
            }
            wait(async || {
                let list = scene.server.admin(Method::GET, "/admin/labelers", None).await;
                let cursor = list.body[0]["cursor"].as_i64();
                // Forged ones do not move it until the document was fetched again.
                cursor >= Some(end) || (fault.is_some() && sender.connections() > 1)
            })
            .await
        };
        rows.push(scene.row(&format!("message of labels: {case}"), count * 200, MESSAGES, send).await?);
    }
    Ok(rows)
}

async fn repos(scene: &Scene) -> anyhow::Result<Vec<Row>> {
    let did = |n: usize| synthetic_did(600_000 + n);
    let mut rows = Vec::new();
    scene.network.serve_cars();
    let large = || json!({ "$type": COLLECTION, "text": "\u{1}".repeat(170_000) });
    let fill = |n: usize, count: usize, record: &dyn Fn(usize) -> Value| {
        scene.network.account(&did(n), 0);
        for k in 0..count {
            scene.network.put(&did(n), COLLECTION, &format!("{k:05}"), record(k));
        }
    };
    fill(0, 20_000, &|k| synthetic_record(COLLECTION, k));
    fill(1, 20_000, &|k| synthetic_record(COLLECTION, k));
    fill(2, 200, &|_| large());
    for (case, n, fault) in [
        ("CAR: 20,000 records", 0, None),
        ("CAR: one record under 20,000 keys", 1, Some(CarFault::OneRecord)),
        ("CAR: 200 times a record of 170 KB, which JSON escapes to a megabyte", 2, Some(CarFault::OneRecord)),
    ] {
        scene.network.faults(Site::Pds(0), move |query| {
            let is_car = query.method == "com.atproto.sync.getRepo";
            fault.filter(|_| is_car).map(Fault::Car)
        });
        let before = scene.network.bytes_of_pdss();
        let send = async { backfill(scene, &did(n)).await };
        let mut row = scene.row(case, 0, 1, send).await?;
        row.bytes = (scene.network.bytes_of_pdss() - before) as usize;
        rows.push(row);
    }
    let values: Vec<(&'static str, String)> =
        ["a", "b", "c"].into_iter().map(|rkey| (rkey, format!("[{}1]", "1,".repeat(600_000)))).collect();
    scene.network.account(&did(3), 0);
    scene.network.put(&did(3), COLLECTION, "a", json!({}));
    scene.network.faults(Site::Pds(0), move |query| {
        let is_page = query.method == "com.atproto.repo.listRecords";
        is_page.then(|| Fault::Records(values.clone()))
    });
    let before = scene.network.bytes_of_pdss();
    let mut row = scene.row("page: 1,800,000 numbers", 0, 1, backfill(scene, &did(3))).await?;
    row.bytes = (scene.network.bytes_of_pdss() - before) as usize;
    rows.push(row);
    Ok(rows)
}

/// Backfills a repo to the end of the job, however it ends.
async fn backfill(scene: &Scene, did: &str) -> anyhow::Result<()> {
    let body = json!({ "collection": COLLECTION, "did": did });
    let answer = scene.server.admin(Method::POST, "/admin/backfill", Some(&body)).await;
    let id = answer.body["id"].as_str().with_context(|| answer.text.clone())?.to_owned();
    wait(async || {
        let path = format!("/admin/backfill/status?id={id}");
        let jobs = scene.server.admin(Method::GET, &path, None).await.body;
        jobs[0]["status"].as_str().is_some_and(|status| status != "running")
    })
    .await
}

async fn requests(scene: &Scene) -> anyhow::Result<Vec<Row>> {
    const TIMES: u32 = 5;
    let numbers = format!("[{}1]", "1,".repeat(BODY_BYTES / 2 - 1_000));
    let deep = BODY_BYTES / 2 - 1_000;
    let names: Vec<String> = (0..70_000).map(|n| format!("\"m{n:05}\":1,")).collect();
    let names = names.concat();
    let mut rows = Vec::new();
    for (case, body) in [
        ("500,000 numbers", format!(r#"{{"lexicon_json":{{"defs":{numbers}}}}}"#)),
        ("500,000 arrays inside each other", "[".repeat(deep) + &"]".repeat(deep)),
        ("70,000 members", format!(r#"{{"lexicon_json":{{{names}"z":1}}}}"#)),
    ] {
        let bytes = body.len();
        let key = format!("Bearer {}", scene.server.admin_key);
        let send = async {
            for _ in 0..TIMES {
                let headers = [("authorization", key.as_str()), ("content-type", "application/json")];
                let answer =
                    scene.server.request(Method::POST, "/admin/lexicons", &headers, Some(body.clone())).await;
                anyhow::ensure!(answer.status.is_client_error(), "{case}: {}", answer.text);
            }
            Ok(())
        };
        rows.push(scene.row(&format!("request: {case}"), bytes, TIMES, send).await?);
    }
    Ok(rows)
}

async fn wait(mut holds: impl AsyncFnMut() -> bool) -> anyhow::Result<()> {
    let waited = tokio::time::timeout(TIMEOUT, async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    waited.await.context("it took too long")
}
