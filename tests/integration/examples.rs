//! Stores and runs every Lua example of the documentation, and checks what it returns.
//!
//! An example begins with directives, each a comment:
//!
//! ```lua
//! -- trigger: xrpc.query:com.example.listNotes
//! -- params: limit=2                    the query string of the call
//! -- input: {"text": "hi"}              the body of a procedure call
//! -- returns: {"records": []}           the response body, as JSON
//! -- status: 400                        the response's status, if it is not 200
//! -- stored only: needs a PDS session   not called, with the reason
//! -- test file: notes.lua               not stored: a file of tests
//! ```
//!
//! `script_tests.rs` runs the same examples, and the files of tests, by `belvedere script test`. Record, label and job scripts are only stored; other tests run some.

use std::fs;
use std::path::Path;

use belvedere_protocol::crypto::Algorithm;
use belvedere_standins::jetstream::{Frame, Place};
use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, BOB, NOTES, World};
use crate::support::instance::{procedure_lexicon, query_lexicon, record_lexicon};
use crate::support::plc::Person;

const PROFILES: &str = "com.example.profile";

/// The caller of the procedures.
const CALLER: &str = "did:plc:callercallercallercallerc";

/// One example of a document.
#[derive(Debug, Default)]
pub struct Example {
    pub place: String,
    pub trigger: String,
    params: String,
    input: Option<Value>,
    returns: Option<Value>,
    status: Option<u16>,
    pub stored_only: bool,
    pub test_file: Option<String>,
    pub source: String,
}

/// The documents for authors of scripts.
pub fn documents() -> Vec<(String, String)> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut paths = vec![docs.join("scripting.md")];
    if let Ok(chapters) = fs::read_dir(docs.join("scripting")) {
        paths.extend(chapters.map(|entry| entry.unwrap().path()));
    }
    paths.sort();
    paths.into_iter().map(|path| (path.display().to_string(), fs::read_to_string(&path).unwrap())).collect()
}

/// The Lua blocks of a document, with the line where each begins.
pub fn examples(name: &str, text: &str) -> Vec<Example> {
    let mut found = Vec::new();
    let mut block: Option<Example> = None;
    for (number, line) in text.lines().enumerate() {
        match &mut block {
            None if line.trim_start() == "```lua" => {
                block = Some(Example { place: format!("{name}:{}", number + 1), ..Example::default() });
            }
            None => {}
            Some(_) if line.trim_start() == "```" => found.extend(block.take()),
            Some(example) => {
                example.directive(line);
                example.source += line;
                example.source.push('\n');
            }
        }
    }
    found
}

impl Example {
    fn directive(&mut self, line: &str) {
        let Some((name, value)) = line.strip_prefix("-- ").and_then(|line| line.split_once(": ")) else {
            return;
        };
        let parse = |text| {
            serde_json::from_str(text).unwrap_or_else(|error| panic!("{}: {error}: {text}", self.place))
        };
        match name {
            "trigger" => value.trim().clone_into(&mut self.trigger),
            "params" => value.trim().clone_into(&mut self.params),
            "input" => self.input = Some(parse(value)),
            "returns" => self.returns = Some(parse(value)),
            "status" => self.status = value.trim().parse().ok(),
            "stored only" => self.stored_only = true,
            "test file" => self.test_file = Some(value.trim().to_owned()),
            _ => {}
        }
    }

    /// Stores the script, and calls it if it is a query or a procedure.
    async fn run(&self, world: &World, caller: &Person) {
        let Self { place, trigger, .. } = self;
        let (kind, nsid) = trigger.split_once(':').unwrap_or_else(|| panic!("{place}: no trigger"));
        let server = &world.server;
        let body = json!({ "id": trigger, "body": self.source });
        let stored = server.admin(Method::POST, "/admin/scripts", Some(&body)).await;
        assert!(stored.status.is_success(), "{place}: {}", stored.text);
        if self.stored_only {
            return;
        }
        let path = format!("/xrpc/{nsid}?{}", self.params);
        let (method, lexicon, body) = match kind {
            "xrpc.query" => (Method::GET, query_lexicon(nsid), None),
            "xrpc.procedure" => {
                (Method::POST, procedure_lexicon(nsid), Some(self.input.clone().unwrap_or_default()))
            }
            _ => return,
        };
        server.upload(lexicon, Some(NOTES)).await;
        let audience = format!("did:web:127.0.0.1%3A{}", server.address.port());
        let token = format!("Bearer {}", caller.token(&audience, json!({ "lxm": nsid })));
        let headers = [("x-client-key", server.client_key.as_str()), ("authorization", &token)];
        let answer = server.request(method, &path, &headers, body.map(|body| body.to_string())).await;
        let log = server.admin(Method::GET, "/admin/events?event_type=script.error", None).await;
        assert_eq!(
            answer.status.as_u16(),
            self.status.unwrap_or(200),
            "{place}: {}\n{}",
            answer.text,
            log.body["events"][0]["detail"]["error"]
        );
        if let Some(returns) = &self.returns {
            assert_eq!(&answer.body, returns, "{place}");
        }
    }
}

crate::in_both_worlds!(every_example_of_the_documents_runs);

/// Creates a space of the caller with a note.
async fn create_space(world: &World, caller: &Person) {
    let server = &world.server;
    let flag = json!({ "value": "true" });
    server.admin(Method::PUT, "/admin/settings/feature.spaces_enabled", Some(&flag)).await;
    let space = format!("at://{CALLER}/space/com.example.group/friends");
    for (method, body) in [
        ("simplespace.createSpace", json!({ "spaceType": "com.example.group", "skey": "friends" })),
        (
            "space.createRecord",
            json!({ "space": space, "collection": NOTES, "record": { "text": "only for us" } }),
        ),
    ] {
        let token = caller.token(&server.did(), json!({}));
        let answer = server.procedure(&format!("com.atproto.{method}"), &token, &body).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
    }
}

/// Gives Bob a handle and a profile.
async fn introduce_bob(world: &mut World) {
    world.plc.host(BOB, "https://pds.example");
    world.plc.also_known_as(BOB, &json!(["at://bob.example"]));
    world.server.dns.txt("_atproto.bob.example", &format!("did={BOB}"));
    world.server.upload(record_lexicon(PROFILES), None).await;
    let setting = json!({ "value": PROFILES });
    world.server.admin(Method::PUT, "/admin/settings/profile_collection", Some(&setting)).await;
    world.wait_for_stream_of(PROFILES).await;
    let record = json!({ "$type": PROFILES, "displayName": "Bob" });
    world.push(|at, rev| {
        Frame::create(at, Place { did: BOB, collection: PROFILES, rkey: "self", rev }, &record)
    });
}

async fn every_example_of_the_documents_runs(mut world: World) {
    world = world.with_notes().await;
    introduce_bob(&mut world).await;
    let first =
        world.note(ALICE, "first", json!({ "text": "The first note", "n": 1, "tags": ["red"] })).await;
    world.note(ALICE, "second", json!({ "text": "The second note", "n": 2, "tags": ["red", "blue"] })).await;
    world.note(BOB, "reply", json!({ "text": "A reply", "n": 3, "subject": first })).await;
    let caller = world.plc.person(CALLER, Algorithm::Es256k);
    create_space(&world, &caller).await;
    let mut count = 0;
    for (name, text) in documents() {
        for example in examples(&name, &text).into_iter().filter(|example| example.test_file.is_none()) {
            example.run(&world, &caller).await;
            count += 1;
        }
    }
    assert!(count > 0, "no example was found");
}
