//! An account that publishes lexicons, with its PDS.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use belvedere_standins::jetstream::cid_of;
use belvedere_standins::upstream::{Upstream, respond};
use serde_json::{Value, json};
use url::Url;

use crate::fixtures::World;

/// The PDS's answer for an NSID.
#[derive(Clone)]
enum Answer {
    Record(Value),
    WrongCid(Value),
    Status(u16),
}

/// A running publisher.
pub struct Publisher {
    answers: Arc<Mutex<HashMap<String, Answer>>>,
    pds: Upstream,
}

impl Publisher {
    /// Starts the PDS of an account. No domain names the account yet.
    pub async fn start(world: &World, did: &str) -> Self {
        let answers = Arc::<Mutex<HashMap<String, Answer>>>::default();
        let known = Arc::clone(&answers);
        let pds = Upstream::start(move |request| {
            let url = Url::parse(&format!("http://pds{}", request.path_and_query)).unwrap();
            let rkey = url.query_pairs().find(|(name, _)| name == "rkey");
            let (_, nsid) = rkey.unwrap_or_default();
            let answer = known.lock().unwrap().get(&*nsid).cloned();
            let body = |value: &Value, of: &Value| {
                json!({ "uri": format!("at://x/com.atproto.lexicon.schema/{nsid}"), "cid": cid_of(of), "value": value })
            };
            match answer {
                Some(Answer::Record(value)) => respond(200, "application/json", body(&value, &value).to_string()),
                Some(Answer::WrongCid(value)) => {
                    respond(200, "application/json", body(&value, &json!({ "another": "record" })).to_string())
                }
                Some(Answer::Status(status)) => respond(status, "application/json", "{}"),
                None => respond(400, "application/json", r#"{"error":"RecordNotFound"}"#),
            }
        })
        .await;
        world.plc.host(did, &pds.url());
        Self { answers, pds }
    }

    pub fn pds_url(&self) -> String {
        self.pds.url()
    }

    fn set(&self, nsid: &str, answer: Option<Answer>) {
        let mut answers = self.answers.lock().unwrap();
        match answer {
            Some(answer) => answers.insert(nsid.to_owned(), answer),
            None => answers.remove(nsid),
        };
    }

    /// Publishes a document under its id.
    pub fn publish(&self, lexicon: &Value) {
        self.publish_as(lexicon["id"].as_str().unwrap(), lexicon);
    }

    /// Publishes a document under a record key.
    pub fn publish_as(&self, rkey: &str, lexicon: &Value) {
        let mut record = lexicon.clone();
        record["$type"] = "com.atproto.lexicon.schema".into();
        self.set(rkey, Some(Answer::Record(record)));
    }

    pub fn publish_with_wrong_cid(&self, lexicon: &Value) {
        self.set(lexicon["id"].as_str().unwrap(), Some(Answer::WrongCid(lexicon.clone())));
    }

    pub fn fail(&self, nsid: &str, status: u16) {
        self.set(nsid, Some(Answer::Status(status)));
    }

    pub fn unpublish(&self, nsid: &str) {
        self.set(nsid, None);
    }
}
