//! Labels of labelers: which are accepted, where they appear, and what happens when a labeler or this server misbehaves.

mod refused;
mod rollouts;
mod letters;
mod many;
mod own;
mod unchecked;
mod versions;

use belvedere_base::random::Random;
use belvedere_protocol::crypto::{Algorithm, PrivateKey};
use belvedere_standins::jetstream::{Frame, Mode};
use belvedere_standins::labeler::{FakeLabeler, Label, Signature};
use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, LIST, NOTES, World};
use crate::support::instance::Instance;

pub const LABELER: &str = "did:plc:labelerlabelerlabelerlab";

pub const EARLY: &str = "2024-05-01T12:00:00.000Z";
const LATER: &str = "2024-05-01T12:00:01.000Z";

/// A labeler and its key.
pub struct Speaker {
    pub labeler: FakeLabeler,
    key: PrivateKey,
}

impl Speaker {
    pub async fn start(algorithm: Algorithm) -> Self {
        let key = PrivateKey::generate(algorithm, &Random::system());
        let signing = PrivateKey::from_bytes(algorithm, &*key.to_bytes()).unwrap();
        let labeler = FakeLabeler::start(LABELER, move |bytes| signing.sign(bytes).to_vec()).await;
        Self { labeler, key }
    }

    /// A labeler that the directory names, and that the server follows.
    async fn followed(world: &World) -> Self {
        let speaker = Self::start(Algorithm::Es256k).await;
        speaker.publish(world);
        follow(&world.server).await;
        speaker
    }

    fn publish(&self, world: &World) {
        world.plc.labeler(LABELER, &self.labeler.url(), &self.key.public());
    }

    pub fn public(&self) -> belvedere_protocol::crypto::PublicKey {
        self.key.public()
    }

    /// Sends labels, and one more that only marks their end; waits until that one is stored.
    async fn say(&self, world: &World, labels: &[Label<'_>]) {
        let mark = self.labeler.send(labels) + 1;
        let end = format!("end-{mark}");
        self.labeler.send(&[Label::new("did:plc:somebody", &end, EARLY)]);
        wait_for_cursor(&world.server, mark).await;
    }
}

pub async fn follow(server: &Instance) {
    let answer = server.admin(Method::POST, "/admin/labelers", Some(&json!({ "did": LABELER }))).await;
    assert_eq!((answer.status.as_u16(), answer.text.as_str()), (201, ""));
}

/// The labeler, as the admin API shows it.
pub async fn shown(server: &Instance) -> Value {
    let list = server.admin(Method::GET, "/admin/labelers", None).await;
    assert_eq!(list.status, 200, "{}", list.text);
    list.body.as_array().unwrap().iter().find(|row| row["did"] == LABELER).cloned().unwrap_or_default()
}

pub async fn wait_for_cursor(server: &Instance, cursor: i64) {
    let reached = async |server: &Instance| shown(server).await["cursor"].as_i64() >= Some(cursor);
    server.eventually(&format!("the cursor is {cursor}"), reached).await;
}

async fn set_status(server: &Instance, status: &str) {
    let body = json!({ "status": status });
    let answer = server.admin(Method::PATCH, &format!("/admin/labelers/{LABELER}"), Some(&body)).await;
    assert_eq!((answer.status.as_u16(), &answer.body["status"]), (200, &json!(status)), "{}", answer.text);
}

/// The labels of a note, as the admin API shows them: source and value.
async fn on(world: &World, uri: &str) -> Vec<(String, String)> {
    let page =
        world.server.admin(Method::GET, &format!("/admin/records?collection={NOTES}&limit=100"), None).await;
    let records = page.body["records"].as_array().unwrap_or_else(|| panic!("{}", page.text));
    let record =
        records.iter().find(|record| record["uri"] == uri).unwrap_or_else(|| panic!("{uri}: {}", page.text));
    let text = |label: &Value, name: &str| label[name].as_str().unwrap().to_owned();
    record["labels"]
        .as_array()
        .unwrap()
        .iter()
        .map(|label| (text(label, "src"), text(label, "val")))
        .collect()
}

fn theirs(values: &[&str]) -> Vec<(String, String)> {
    values.iter().map(|value| (LABELER.to_owned(), (*value).to_owned())).collect()
}

async fn events(world: &World, kind: &str) -> Vec<Value> {
    let page = world.server.admin(Method::GET, &format!("/admin/events?event_type={kind}"), None).await;
    page.body["events"].as_array().unwrap_or_else(|| panic!("{}", page.text)).clone()
}

async fn wait_for_event(world: &World, kind: &str) -> Value {
    world.server.eventually(kind, async |_| !events(world, kind).await.is_empty()).await;
    events(world, kind).await.swap_remove(0)
}

crate::in_both_worlds!(
    labels_appear_in_admin_records_and_scripts,
    a_label_of_one_version_ends_with_it,
    a_labeler_speaks_only_for_itself,
    a_new_key_is_found_when_a_signature_is_wrong,
    a_labeler_that_starts_again_is_read_from_its_beginning,
    a_message_that_is_too_large_is_skipped,
    a_paused_labeler_continues_where_it_stopped,
    a_deleted_labeler_takes_its_labels_along,
    label_scripts_decide
);

async fn labels_appear_in_admin_records_and_scripts(mut world: World) {
    world = world.with_notes().await;
    let own =
        json!({ "labels": { "$type": "com.atproto.label.defs#selfLabels", "values": [{ "val": "art" }] } });
    let uri = world.note(ALICE, "a", own).await;
    let other = world.note(ALICE, "b", json!({})).await;
    let speaker = Speaker::followed(&world).await;
    let spam = Label::new(&uri, "spam", EARLY);
    let rude = Label::new(&other, "rude", EARLY);
    let expired = Label { exp: Some(LATER), ..Label::new(&uri, "expired", EARLY) };
    let lasting = Label { exp: Some("2999-01-01T00:00:00Z"), ..Label::new(&uri, "lasting", EARLY) };
    speaker.say(&world, &[spam.clone(), rude, expired, lasting, Label::new(ALICE, "account", EARLY)]).await;
    let mut expected = theirs(&["lasting", "spam"]);
    expected.push((ALICE.to_owned(), "art".to_owned()));
    assert_eq!(on(&world, &uri).await, expected, "those of labelers, then the author's");
    assert_eq!(on(&world, &other).await, theirs(&["rude"]));
    for (label, found) in [
        ("spam", Some(&uri)),
        ("art", Some(&uri)),
        ("rude", Some(&other)),
        ("expired", None),
        ("account", None),
    ] {
        let path = format!("/admin/records?collection={NOTES}&label={label}");
        let page = world.server.admin(Method::GET, &path, None).await.body;
        let uris: Vec<&str> =
            page["records"].as_array().unwrap().iter().map(|r| r["uri"].as_str().unwrap()).collect();
        assert_eq!(uris, found.map(String::as_str).into_iter().collect::<Vec<_>>(), "{label}");
    }

    let answer = async |source: &str| {
        world.server.bind(LIST, source).await;
        world.server.xrpc(LIST).await.body
    };
    let labels = answer(&format!("function handle() return {{ l = atproto.get_labels('{uri}') }} end")).await;
    let cts = "2024-05-01T12:00:00.000000Z";
    assert_eq!(
        labels["l"],
        json!([
            { "src": LABELER, "uri": uri, "val": "lasting", "cts": cts }, { "src": LABELER, "uri": uri, "val": "spam", "cts": cts },
            { "src": ALICE, "uri": uri, "val": "art", "cts": "" },
        ])
    );
    let account =
        answer(&format!("function handle() return {{ l = atproto.get_labels('{ALICE}') }} end")).await;
    assert_eq!(account["l"][0]["val"], "account");

    // A negation withdraws, a repetition of the older label changes nothing, a newer label applies again.
    speaker.say(&world, &[Label { cts: LATER, ..spam.clone() }.negated()]).await;
    assert!(!on(&world, &uri).await.contains(&theirs(&["spam"])[0]));
    speaker.say(&world, std::slice::from_ref(&spam)).await;
    assert!(!on(&world, &uri).await.contains(&theirs(&["spam"])[0]), "replayed");
    speaker.say(&world, &[Label { cts: "2024-05-01T12:00:02Z", ..spam }]).await;
    assert!(on(&world, &uri).await.contains(&theirs(&["spam"])[0]));
}

async fn a_label_of_one_version_ends_with_it(mut world: World) {
    world = world.with_notes().await;
    let uri = world.note(ALICE, "a", json!({ "text": "first" })).await;
    let page = world.server.admin(Method::GET, &format!("/admin/records?collection={NOTES}"), None).await;
    let cid = page.body["records"][0]["cid"].as_str().unwrap().to_owned();
    let speaker = Speaker::followed(&world).await;
    let of_version = Label { cid: Some(&cid), ..Label::new(&uri, "version", EARLY) };
    speaker.say(&world, &[of_version, Label::new(&uri, "every", EARLY)]).await;
    assert_eq!(on(&world, &uri).await, theirs(&["every", "version"]));
    world.push(|at, rev| {
        let place = belvedere_standins::jetstream::Place { did: ALICE, collection: NOTES, rkey: "a", rev };
        Frame::update(at, place, &json!({ "$type": NOTES, "text": "second" }))
    });
    world
        .server
        .eventually("the note is replaced", async |_| on(&world, &uri).await == theirs(&["every"]))
        .await;
}

async fn a_labeler_speaks_only_for_itself(mut world: World) {
    world = world.with_notes().await;
    let uri = world.note(ALICE, "a", json!({})).await;
    let speaker = Speaker::followed(&world).await;
    let good = |val| Label::new(&uri, val, EARLY);
    let long = "x".repeat(129);
    let in_space = format!("at://{LABELER}/space/com.example.group/main/{ALICE}/com.example.note/a");
    speaker.labeler.push(|_| b"\xffgarbage".to_vec());
    speaker.labeler.push(|_| Vec::new());
    speaker
        .say(
            &world,
            &[
                Label { src: Some("did:plc:otherlabelerotherlabelero"), ..good("spoofed") },
                Label { signature: Signature::Wrong, ..good("forged") },
                Label { signature: Signature::Absent, ..good("unsigned") },
                good(&long),
                good("nul\0"),
                Label { cts: "yesterday", ..good("undated") },
                Label { uri: "at://alice.test/com.example.note/a", ..good("handle") },
                Label { uri: &in_space, ..good("in a space") },
                good("good"),
            ],
        )
        .await;
    assert_eq!(on(&world, &uri).await, theirs(&["good"]));
    world
        .server
        .eventually("six kinds", async |_| events(&world, "labeler.labels_refused").await.len() == 6)
        .await;
    let refused = events(&world, "labeler.labels_refused").await;
    let mut kinds: Vec<&str> =
        refused.iter().map(|event| event["detail"]["kind"].as_str().unwrap()).collect();
    kinds.sort_unstable();
    assert_eq!(
        kinds,
        ["label", "message", "signature", "source", "space", "unsigned"],
        "one event for each kind"
    );
    assert!(refused.iter().all(|event| event["subject"] == LABELER && event["severity"] == "warn"));
    assert!(shown(&world.server).await["connected"] == true, "the connection stays");
}

async fn a_new_key_is_found_when_a_signature_is_wrong(mut world: World) {
    world = world.with_notes().await;
    let uri = world.note(ALICE, "a", json!({})).await;
    let speaker = Speaker::followed(&world).await;
    speaker.say(&world, &[Label::new(&uri, "old", EARLY)]).await;
    let new = PrivateKey::generate(Algorithm::Es256, &Random::system());
    world.plc.labeler(LABELER, &speaker.labeler.url(), &new.public());
    speaker.labeler.sign_with(move |bytes| new.sign(bytes).to_vec());
    // The stream says that the identity has changed, so the document may be fetched at once.
    world.push(|at, _| Frame::identity(at, LABELER, "labeler.test"));
    let mut sent = 0;
    world
        .server
        .eventually("a label with the new key", async |_| {
            sent += 1;
            speaker.labeler.send(&[Label::new(&uri, &format!("new-{sent}"), EARLY)]);
            on(&world, &uri).await.iter().any(|(_, val)| val.starts_with("new-"))
        })
        .await;
    assert_eq!(speaker.labeler.connections(), 1, "over the same connection");
}

async fn a_labeler_that_starts_again_is_read_from_its_beginning(mut world: World) {
    world = world.with_notes().await;
    let uri = world.note(ALICE, "a", json!({})).await;
    let speaker = Speaker::followed(&world).await;
    for n in 0..5 {
        speaker.labeler.send(&[Label::new(&uri, &format!("old-{n}"), EARLY)]);
    }
    wait_for_cursor(&world.server, 5).await;
    speaker.labeler.forget();
    speaker.labeler.drop_clients();
    let event = wait_for_event(&world, "labeler.cursor_reset").await;
    speaker.labeler.send(&[Label::new(&uri, "new", EARLY)]);
    assert_eq!((&event["detail"]["cursor"], &event["severity"]), (&json!(5), &json!("warn")));
    let arrived = async |_: &Instance| on(&world, &uri).await.contains(&theirs(&["new"])[0]);
    world.server.eventually("the new label", arrived).await;
    assert_eq!(speaker.labeler.cursors(), [Some(0), Some(5), Some(0)]);
    assert_eq!(on(&world, &uri).await.len(), 6, "what it said before stays");

    speaker.labeler.inform("OutdatedCursor");
    speaker.labeler.inform("Other");
    assert_eq!(wait_for_event(&world, "labeler.cursor_outdated").await["subject"], LABELER);
}

async fn a_message_that_is_too_large_is_skipped(mut world: World) {
    world = world.with_notes().await;
    let uri = world.note(ALICE, "a", json!({})).await;
    let speaker = Speaker::followed(&world).await;
    speaker.say(&world, &[Label::new(&uri, "before", EARLY)]).await;
    let giant = speaker.labeler.push(|_| vec![0; 2 << 20]);
    speaker.labeler.send(&[Label::new(&uri, "after", EARLY)]);
    wait_for_cursor(&world.server, giant + 1).await;
    assert_eq!(on(&world, &uri).await, theirs(&["after", "before"]));
    let event = wait_for_event(&world, "labeler.messages_skipped").await;
    assert_eq!((&event["detail"]["from"], &event["detail"]["to"]), (&json!(giant - 1), &json!(giant)));
    let shown = shown(&world.server).await;
    assert!(shown["last_error"].as_str().unwrap().contains("protocol error"), "{shown}");
}

async fn a_paused_labeler_continues_where_it_stopped(mut world: World) {
    world = world.with_notes().await;
    let uri = world.note(ALICE, "a", json!({})).await;
    let speaker = Speaker::followed(&world).await;
    speaker.say(&world, &[Label::new(&uri, "first", EARLY)]).await;
    set_status(&world.server, "paused").await;
    let disconnected = async |server: &Instance| shown(server).await["connected"] == false;
    world.server.eventually("it is not connected", disconnected).await;
    speaker.labeler.send(&[Label::new(&uri, "second", EARLY)]);
    assert_eq!(on(&world, &uri).await, theirs(&["first"]), "its labels stay in force");
    set_status(&world.server, "active").await;
    wait_for_cursor(&world.server, 3).await;
    assert_eq!(on(&world, &uri).await, theirs(&["first", "second"]));
    assert_eq!(speaker.labeler.cursors(), [Some(0), Some(2)]);
    let event = wait_for_event(&world, "labeler.disconnected").await;
    assert_eq!((&event["detail"]["last_seq"], &event["detail"]["did"]), (&json!(2), &json!(LABELER)));
}

async fn a_deleted_labeler_takes_its_labels_along(mut world: World) {
    world = world.with_notes().await;
    let uri = world.note(ALICE, "a", json!({})).await;
    let speaker = Speaker::followed(&world).await;
    // More than are removed in one step.
    let many: Vec<String> = (0..1_500).map(|n| format!("label-{n}")).collect();
    let labels: Vec<Label<'_>> = many.iter().map(|val| Label::new("did:plc:somebody", val, EARLY)).collect();
    speaker.say(&world, &labels).await;
    speaker.say(&world, &[Label::new(&uri, "spam", EARLY)]).await;
    let path = format!("/admin/labelers/{LABELER}");
    assert_eq!(world.server.admin(Method::DELETE, &path, None).await.status, 204);
    assert_eq!(shown(&world.server).await, Value::Null);
    assert!(on(&world, &uri).await.is_empty());
    world
        .server
        .bind(LIST, "function handle() return db.raw('SELECT count(*) AS n FROM labels')[1] end")
        .await;
    assert_eq!(world.server.xrpc(LIST).await.body["n"], 0);
    assert_eq!(world.server.admin(Method::DELETE, &path, None).await.status, 404);
    // Added again, it is read from its beginning.
    follow(&world.server).await;
    wait_for_cursor(&world.server, 4).await;
    assert_eq!(on(&world, &uri).await, theirs(&["spam"]));
    assert_eq!(speaker.labeler.cursors(), [Some(0), Some(0)]);
}

async fn label_scripts_decide(mut world: World) {
    world = world.with_notes().await;
    let uri = world.note(ALICE, "a", json!({})).await;
    world
        .server
        .bind_to(
            &format!("labeler.apply:{NOTES}"),
            "
            function handle()
              if val == 'drop' then return nil end
              if val == 'change' then return { val = 'changed' } end
              if val == 'wide' then return { val = string.rep('x', 129) } end
              if val == 'bad' then error('I do not like it') end
              return true
            end",
        )
        .await;
    world.server.bind_to("labeler.apply:_actor", "function handle() return nil end").await;
    let speaker = Speaker::followed(&world).await;
    let on_note = |val| Label::new(&uri, val, EARLY);
    let labels = ["drop", "change", "bad", "wide", "keep"].map(on_note);
    speaker.labeler.send(&[Label::new(ALICE, "account", EARLY)]);
    speaker.say(&world, &labels).await;
    assert_eq!(on(&world, &uri).await, theirs(&["bad", "changed", "keep", "wide"]));
    world
        .server
        .bind(LIST, &format!("function handle() return {{ l = atproto.get_labels('{ALICE}') }} end"))
        .await;
    assert_eq!(world.server.xrpc(LIST).await.body["l"], json!([]));
    let letters = world.server.admin(Method::GET, "/admin/dead-letters", None).await;
    let letters = letters.body["dead_letters"].as_array().unwrap().clone();
    assert_eq!(letters.len(), 2, "{letters:?}");
    let bad = letters.iter().find(|letter| letter["rkey"] == "bad").unwrap();
    assert_eq!(
        (&bad["collection"], &bad["did"], &bad["action"]),
        (&json!(NOTES), &json!(LABELER), &json!("label"))
    );
    let retry = format!("/admin/dead-letters/{}/retry", bad["id"].as_str().unwrap());
    assert_eq!(world.server.admin(Method::POST, &retry, None).await.status, 400);
}
