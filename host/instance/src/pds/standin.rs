//! A fake PDS for tests: answers writes as a PDS would and records the requests, but stores nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use belvedere_standins::upstream::{ReceivedRequest, Upstream, respond};
use bytes::Bytes;
use http::Response;
use serde_json::{Value, json};

use super::{Credential, Session};
use crate::config::Secret;
use belvedere_protocol::atproto::{Did, Tid, record};

/// Revisions begin in November 2023.
const FIRST_REV: u64 = 1_700_000_000_000_000;

type Refusals = Arc<Mutex<Vec<(u16, &'static str)>>>;

#[derive(Debug)]
pub struct FakePds {
    upstream: Upstream,
    refusals: Refusals,
    revs: Arc<AtomicU64>,
}

impl FakePds {
    pub async fn start() -> Self {
        let (refusals, revs) = (Refusals::default(), Arc::new(AtomicU64::new(0)));
        let (refuse, count) = (Arc::clone(&refusals), Arc::clone(&revs));
        let upstream = Upstream::start(move |asked| {
            if let Some((status, body)) = refuse.lock().unwrap().pop() {
                return respond(status, "application/json", body);
            }
            answer(asked, count.fetch_add(1, Ordering::SeqCst) + 1)
        })
        .await;
        Self { upstream, refusals, revs }
    }

    /// A session of an account on this PDS.
    pub fn session(&self, did: &str) -> Session {
        Session {
            did: Did::try_from(did).unwrap(),
            endpoint: self.upstream.url(),
            credential: Credential::Bearer(Secret::new(format!("token-of-{did}"))),
            permits: None,
        }
    }

    /// Answers the next request with this status and body.
    pub fn refuse(&self, status: u16, body: &'static str) {
        self.refusals.lock().unwrap().push((status, body));
    }

    /// Method (with query) and body of each request so far.
    pub fn asked(&self) -> Vec<(String, Value)> {
        let asked = self.upstream.requests().into_iter();
        asked
            .map(|asked| {
                let method = asked.path_and_query.trim_start_matches("/xrpc/com.atproto.repo.").to_owned();
                let text = || json!(String::from_utf8_lossy(&asked.body));
                (method, serde_json::from_slice(&asked.body).unwrap_or_else(|_| text()))
            })
            .collect()
    }

    /// The revision of the last commit.
    pub fn rev(&self) -> Tid {
        rev(self.revs.load(Ordering::SeqCst))
    }
}

fn rev(commit: u64) -> Tid {
    Tid::new(FIRST_REV + commit, 7).unwrap()
}

fn answer(asked: &ReceivedRequest, commit: u64) -> Response<Bytes> {
    let method = asked.path_and_query.trim_start_matches("/xrpc/");
    assert_eq!(
        asked.method == http::Method::GET,
        method.contains('?'),
        "queries are GET requests, procedures POST"
    );
    let authorization = asked.headers.get("authorization").map_or("", |value| value.to_str().unwrap());
    let body: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
    let repo = body["repo"].as_str().unwrap_or_default();
    if !repo.is_empty() && authorization != format!("Bearer token-of-{repo}") {
        return respond(401, "application/json", r#"{"error":"AuthMissing","message":"Whose repo is it?"}"#);
    }
    let record_ref = |write: &Value, value: &Value| {
        let rkey = write["rkey"].as_str().unwrap_or("3madebythepds");
        let cid = record::inspect(value.to_string().as_bytes()).unwrap().cid.unwrap();
        json!({ "uri": format!("at://{repo}/{}/{rkey}", write["collection"].as_str().unwrap()),
            "cid": cid.to_string() })
    };
    let commit = json!({ "cid": "bafyreic", "rev": rev(commit).to_string() });
    let answer = match method {
        "com.atproto.repo.createRecord" | "com.atproto.repo.putRecord" => {
            let mut answer = record_ref(&body, &body["record"]);
            answer["commit"] = commit;
            answer
        }
        "com.atproto.repo.deleteRecord" => json!({ "commit": commit }),
        "com.atproto.repo.applyWrites" => {
            let writes = body["writes"].as_array().unwrap().iter();
            let results: Vec<Value> = writes
                .map(|write| match &write["value"] {
                    Value::Null => json!({ "$type": "com.atproto.repo.applyWrites#deleteResult" }),
                    value => record_ref(write, value),
                })
                .collect();
            json!({ "commit": commit, "results": results })
        }
        "com.atproto.repo.uploadBlob" => json!({ "blob": { "$type": "blob", "size": asked.body.len(),
            "mimeType": asked.headers["content-type"].to_str().unwrap() } }),
        _ => return respond(501, "application/json", r#"{"error":"MethodNotImplemented"}"#),
    };
    respond(200, "application/json", answer.to_string())
}
