//! Sets up lexicons and clients, and reads the index through the admin API and XRPC.

use reqwest::Method;
use serde_json::{Value, json};

use crate::pds::{Account, Records};
use crate::server::{Server, expect, send};
use crate::wait::until;

/// Uploads a record lexicon without a backfill: records come only from the stream.
pub async fn track(server: &Server, key: &str, collection: &str) {
    let lexicon = json!({
        "lexicon": 1, "id": collection,
        "defs": { "main": { "type": "record", "key": "any", "record": {
            "type": "object", "properties": { "text": { "type": "string" }, "n": { "type": "integer" } } } } },
    });
    upload(server, key, json!({ "lexicon_json": lexicon, "backfill": false })).await;
}

/// Uploads a query lexicon that reads `collection`.
pub async fn add_query(server: &Server, key: &str, nsid: &str, collection: &str) {
    let lexicon = json!({
        "lexicon": 1, "id": nsid,
        "defs": { "main": { "type": "query", "output": { "encoding": "application/json" } } },
    });
    upload(server, key, json!({ "lexicon_json": lexicon, "target_collection": collection })).await;
}

/// Uploads a procedure lexicon that writes to `collection`.
pub async fn add_procedure(server: &Server, key: &str, nsid: &str, collection: &str) {
    let lexicon = json!({
        "lexicon": 1, "id": nsid,
        "defs": { "main": { "type": "procedure", "input": { "encoding": "application/json" } } },
    });
    upload(server, key, json!({ "lexicon_json": lexicon, "target_collection": collection })).await;
}

async fn upload(server: &Server, key: &str, body: Value) {
    let answer =
        expect(201, server.request(Method::POST, "/admin/lexicons").bearer_auth(key).json(&body)).await;
    assert_eq!(answer["revision"], 1);
}

/// Registers an API client. Returns its client key.
pub async fn add_client(server: &Server, key: &str) -> String {
    let body = json!({
        "name": "test app", "client_id_url": "https://app.example/metadata.json", "client_uri": "https://app.example",
        "redirect_uris": ["https://app.example/callback"],
    });
    let answer =
        expect(201, server.request(Method::POST, "/admin/api-clients").bearer_auth(key).json(&body)).await;
    answer["client_key"].as_str().expect("a client key").to_owned()
}

/// The records of these accounts in one collection, read page by page from the admin API.
pub async fn records(server: &Server, key: &str, collection: &str, accounts: &[Account]) -> Records {
    let mut records = Records::new();
    let mut cursor: Option<String> = None;
    loop {
        let mut request = server
            .request(Method::GET, "/admin/records")
            .bearer_auth(key)
            .query(&[("collection", collection), ("limit", "100")]);
        if let Some(cursor) = &cursor {
            request = request.query(&[("cursor", cursor)]);
        }
        let page = expect(200, request).await;
        for row in page["records"].as_array().expect("a list of records") {
            if accounts.iter().any(|account| row["did"] == account.did.as_str()) {
                let text = |name: &str| row[name].as_str().expect("uri and cid are texts").to_owned();
                let mut record = row["record"].clone();
                // The uri is not part of the record on the PDS.
                if let Some(fields) = record.as_object_mut() {
                    fields.remove("uri");
                }
                let duplicate = records.insert(text("uri"), (text("cid"), record));
                assert!(duplicate.is_none(), "{} is listed twice", row["uri"]);
            }
        }
        cursor = page["cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            return records;
        }
    }
}

/// Waits until the index has exactly the records of the accounts' repos, with the same CIDs and values. Returns their
/// number.
pub async fn equals_pds(server: &Server, key: &str, collection: &str, accounts: &[Account]) -> usize {
    let mut expected = Records::new();
    for account in accounts {
        expected.extend(account.records(collection).await);
    }
    until("the index equals the PDS", || async {
        let index = records(server, key, collection, accounts).await;
        if index == expected {
            return Ok(());
        }
        let missing: Vec<_> = expected
            .iter()
            .filter(|(uri, _)| !index.contains_key(*uri))
            .map(|(uri, _)| uri)
            .take(3)
            .collect();
        let extra: Vec<_> = index.keys().filter(|uri| !expected.contains_key(*uri)).take(3).collect();
        let wrong: Vec<_> = expected
            .iter()
            .filter(|(uri, row)| index.get(*uri).is_some_and(|found| found != *row))
            .take(2)
            .map(|(uri, row)| format!("{uri}: {row:?} but {:?}", index[uri]))
            .collect();
        Err(format!(
            "{} of {} records; missing {missing:?}, extra {extra:?}, wrong {wrong:?}",
            index.len(),
            expected.len()
        ))
    })
    .await;
    expected.len()
}

/// Repeats a query until its response satisfies `good`, and returns that response.
pub async fn query_until(
    what: &str,
    request: impl Fn() -> reqwest::RequestBuilder,
    good: impl Fn(&Value) -> bool,
) -> Value {
    until(what, || async {
        let (status, body) = send(request()).await;
        if status.is_success() && good(&body) { Ok(body) } else { Err(format!("{status} {body}")) }
    })
    .await
}
