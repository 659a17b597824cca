//! A lexicon on the real network: published in a repo of a real PDS, named by DNS, followed through the Jetstream.

use reqwest::Method;
use serde_json::{Value, json};

use crate::database::Database;
use crate::network::network;
use crate::server::{Server, expect};
use crate::wait::until;

const SCHEMA: &str = "com.atproto.lexicon.schema";

fn lexicon(nsid: &str, properties: Value) -> Value {
    json!({ "$type": SCHEMA, "lexicon": 1, "id": nsid, "defs": { "main": { "type": "record", "key": "tid",
        "record": { "type": "object", "properties": properties } } } })
}

fn is(found: &Value, wanted: u64) -> Result<(), String> {
    if *found == wanted { Ok(()) } else { Err(found.to_string()) }
}

crate::on_both!(a_published_lexicon_is_taken_and_followed);
async fn a_published_lexicon_is_taken_and_followed(database: Database) {
    let network = network().await;
    let (admin, publisher) = (network.account().await, network.account().await);
    // A domain of its own for each run: DNS answers are cached.
    let label = publisher.handle.split('.').next().unwrap().to_owned();
    let (nsid, domain) = (format!("com.example.{label}.note"), format!("{label}.example.com"));
    network.txt(&format!("_lexicon.{domain}"), &format!("did={}", publisher.did)).await;
    publisher.put(SCHEMA, &nsid, lexicon(&nsid, json!({ "text": { "type": "string" } }))).await;

    let mut server = Server::new(network, database);
    server.start().await;
    let key = server.create_key(&admin.did);
    let get = |path: String| server.request(Method::GET, &path).bearer_auth(&key);
    let preview = expect(200, get(format!("/admin/network-lexicons/resolve/{nsid}"))).await;
    assert_eq!((&preview["authority_did"], &preview["type"]), (&json!(publisher.did), &json!("record")));
    let body = json!({ "nsid": nsid });
    let add = server.request(Method::POST, "/admin/network-lexicons").bearer_auth(&key).json(&body);
    assert_eq!(expect(201, add).await["revision"], 1);

    // The stream may not follow the collection yet: the record is written again until it is indexed.
    let stats = async || expect(200, get("/admin/stats".to_owned())).await["collections"][0].clone();
    let (publisher, nsid) = (&publisher, nsid.as_str());
    let mut times = 0;
    until("the record is indexed", || {
        times += 1;
        async move {
            let record = json!({ "text": "a", "more": 1, "times": times });
            publisher.put(nsid, "3mptbypluud2a", record).await;
            is(&stats().await["count"], 1)
        }
    })
    .await;
    assert_eq!(stats().await["invalid"], 0);
    let more = json!({ "text": { "type": "string" }, "more": { "type": "string" } });
    publisher.put(SCHEMA, nsid, lexicon(nsid, more)).await;
    let stored = async || expect(200, get(format!("/admin/lexicons/{nsid}"))).await;
    until("the new version is taken", || async { is(&stored().await["revision"], 2) }).await;
    until("the record is judged by it", || async { is(&stats().await["invalid"], 1) }).await;

    publisher.delete(SCHEMA, nsid).await;
    let listed = async || expect(200, get("/admin/network-lexicons".to_owned())).await;
    until("the lexicon is removed", || async {
        let listed = listed().await;
        if listed == json!([]) { Ok(()) } else { Err(listed.to_string()) }
    })
    .await;
    server.stop().await;
}
