//! Two hosts that deliver the notices of a space at once: each notice is sent once.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use belvedere_protocol::crypto::Algorithm;
use belvedere_standins::recorder::recorder;
use http::Method;
use serde_json::{Value, json};

use super::Hosts;
use crate::fixtures::{ALICE, BOB};
use crate::spaces::CAROL;
use crate::support::instance::{Answer, Instance};
use crate::support::plc::Person;

const SERVICE: &str = "did:plc:serviceserviceserviceser";

/// Writes of each author through each host.
const WRITES: usize = 10;

async fn post(host: &Instance, person: &Person, method: &str, body: &Value) -> Answer {
    let token = person.token(&host.did(), json!({}));
    host.procedure(&format!("com.atproto.{method}"), &token, body).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_notice_of_a_space_is_sent_once() {
    let hosts = Hosts::start().await;
    let flag = json!({ "value": "true" });
    let on = hosts.a.admin(Method::PUT, "/admin/settings/feature.spaces_enabled", Some(&flag)).await;
    assert_eq!(on.status, 204, "{}", on.text);
    let identity = json!({ "mode": "did_web" });
    let put = hosts.a.admin(Method::PUT, "/admin/service-identity", Some(&identity)).await;
    assert_eq!(put.status, 204, "{}", put.text);
    let people = [ALICE, BOB, CAROL].map(|did| hosts.plc.person(did, Algorithm::Es256k));
    let seen = Arc::new(Mutex::new(Vec::<Value>::new()));
    let bodies = Arc::clone(&seen);
    let (address, _) = recorder(move |text| {
        let body = text.split_once("\r\n\r\n").map(|(_, body)| serde_json::from_str(body).unwrap());
        bodies.lock().unwrap().extend(body);
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}".to_owned()
    })
    .await;
    hosts.plc.host(SERVICE, &format!("http://{address}"));
    let made = json!({ "spaceType": "com.example.group", "skey": "main" });
    let made = post(&hosts.a, &people[0], "simplespace.createSpace", &made).await;
    let space = made.body["uri"].as_str().unwrap_or_else(|| panic!("{}", made.text)).to_owned();
    for did in [BOB, CAROL] {
        let member = json!({ "space": space, "did": did, "read": true, "write": true });
        assert_eq!(post(&hosts.a, &people[0], "simplespace.putMember", &member).await.status, 200);
    }
    let register = json!({ "space": space, "service": SERVICE });
    assert_eq!(post(&hosts.a, &people[0], "space.registerNotify", &register).await.status, 200);
    let writes = people.iter().flat_map(|person| [(person, &hosts.a), (person, &hosts.b)]);
    let space = &space;
    let writes = writes.map(|(person, host)| async move {
        for n in 0..WRITES {
            let body = json!({ "space": space, "collection": "com.example.note", "record": { "n": n } });
            host.eventually("the host knows the setting and the client", async |host| {
                post(host, person, "space.createRecord", &body).await.status == 200
            })
            .await;
        }
    });
    futures_util::future::join_all(writes).await;
    let path = format!("/xrpc/com.atproto.space.listRepos?space={}", space.replace('%', "%25"));
    let bearer = format!("Bearer {}", people[0].token(&hosts.a.did(), json!({})));
    let repos = hosts.a.request(Method::GET, &path, &[("authorization", &bearer)], None).await.body;
    let place = |notice: &Value, rev: &str| (notice["spaceRev"].to_string(), notice[rev].to_string());
    let expected: BTreeSet<_> =
        repos["repos"].as_array().unwrap().iter().map(|repo| place(repo, "repoRev")).collect();
    assert_eq!(expected.len(), 3, "{repos}");
    hosts
        .a
        .eventually("the last state of each repo arrives", async |_| {
            let sent: BTreeSet<_> = seen.lock().unwrap().iter().map(|body| place(body, "repoRev")).collect();
            expected.is_subset(&sent)
        })
        .await;
    // A last notice comes after all others.
    let body = json!({ "space": space, "collection": "com.example.note", "record": {} });
    assert_eq!(post(&hosts.b, &people[0], "space.createRecord", &body).await.status, 200);
    let before = seen.lock().unwrap().len();
    hosts.b.eventually("it arrives", async |_| seen.lock().unwrap().len() > before).await;
    let seen = seen.lock().unwrap();
    let distinct: BTreeSet<_> = seen.iter().map(|body| place(body, "repoRev")).collect();
    assert_eq!(distinct.len(), seen.len(), "{seen:?}");
}
