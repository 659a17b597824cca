//! Live queries: a client that applies the differences has the page that a new request gives.

use std::time::Duration;

use belvedere_base::random::Random;
use belvedere_standins::jetstream::{Frame, Place};
use belvedere_standins::websocket::{Received, WebSocket};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::fixtures::{ALICE, BOB, LIST, NOTES, World};
use crate::support::instance::Instance;

const VIEW: &str = "com.example.moodyNotes";

/// Longer than the server waits without a change.
const SOON: Duration = Duration::from_mins(1);

/// A client that holds a page.
pub struct Page {
    socket: WebSocket,
    path: String,
    seq: i64,
    /// More messages of the same answer follow.
    has_more: bool,
    pub answer: Value,
}

impl Page {
    pub async fn open(server: &Instance, path: &str) -> Result<Self, StatusCode> {
        let separator = if path.contains('?') { '&' } else { '?' };
        let url = format!("/xrpc/{path}{separator}client_key={}", server.client_key);
        let socket = WebSocket::connect(server.address, &url, &[]).await?;
        let mut page = Self { socket, path: path.to_owned(), seq: 0, has_more: false, answer: Value::Null };
        page.receive().await;
        Ok(page)
    }

    /// Applies the messages of one answer. Cancel-safe.
    pub async fn receive(&mut self) {
        loop {
            let received = tokio::time::timeout(SOON, self.socket.receive()).await.unwrap();
            let Received::Json(mut frame) = received else { panic!("{received:?}") };
            assert_eq!(frame["$type"], "message", "{frame}");
            let message = frame["payload"].take();
            let seq = message["seq"].as_i64().unwrap();
            let expected = self.seq + i64::from(!self.has_more);
            let is_whole = message["$type"].as_str().unwrap().ends_with("#page");
            assert!(is_whole || seq == expected, "{seq} instead of {expected}");
            (self.seq, self.has_more) = (seq, message.get("more").is_some());
            self.apply(message);
            if !self.has_more {
                return;
            }
        }
    }

    fn apply(&mut self, mut message: Value) {
        let kind = message["$type"].as_str().unwrap().rsplit_once('#').unwrap().1.to_owned();
        let place = |message: &Value, name: &str| message[name].as_u64().unwrap() as usize;
        if kind == "page" {
            self.answer = message["page"].take();
            return;
        }
        if kind == "fields" {
            for name in message["absent"].as_array().unwrap() {
                self.answer.as_object_mut().unwrap().remove(name.as_str().unwrap());
            }
            for (name, value) in message["fields"].as_object().unwrap() {
                self.answer[name] = value.clone();
            }
            return;
        }
        let list = self.answer[message["list"].as_str().unwrap()].as_array_mut().unwrap();
        let at = place(&message, "index");
        match &*kind {
            "removed" => drop(list.remove(at)),
            "added" => list.insert(at, message["row"].take()),
            "changed" => list[at] = message["row"].take(),
            "position" => {
                let row = list.remove(place(&message, "from"));
                list.insert(at, row);
            }
            other => panic!("{other}"),
        }
    }

    /// Applies messages until the page is the one that a new request gives.
    pub async fn settle(&mut self, server: &Instance) {
        let settled = async {
            loop {
                let fresh = server.xrpc(&self.path).await;
                assert_eq!(fresh.status, 200, "{}", fresh.text);
                if fresh.body == self.answer {
                    return;
                }
                // Without a message, the page may have changed between two requests.
                let _ = tokio::time::timeout(Duration::from_millis(300), self.receive()).await;
            }
        };
        let settled = tokio::time::timeout(SOON, settled).await;
        assert!(settled.is_ok(), "{}: {}", self.path, self.answer);
    }
}

crate::in_both_worlds!(
    pages_follow_random_writes,
    what_can_not_be_watched_is_refused,
    a_hidden_account_leaves_the_page,
    a_record_that_is_deleted_ends_its_watch,
    a_changed_view_ends_its_watch
);

/// A view of notes by their mood.
async fn moody(world: World) -> World {
    let world = world.with_notes().await;
    let lexicon = json!({ "lexicon": 1, "id": VIEW, "defs": { "main": {
        "type": "query",
        "parameters": { "type": "params", "properties": {
            "mood": { "type": "string" }, "limit": { "type": "integer" }, "cursor": { "type": "string" } } },
        "output": { "encoding": "application/json", "schema": { "type": "object", "properties": {
            "notes": { "type": "array", "items": { "type": "unknown" } }, "cursor": { "type": "string" } } } } } } });
    world.server.upload(lexicon, None).await;
    world.server.bind_to(&format!("xrpc.view:{VIEW}"), &view().to_string()).await;
    world
}

fn view() -> Value {
    json!({ "view": 1, "from": NOTES, "where": { "mood": "$mood" }, "order": ["text"],
        "output": { "notes": [{ "uri": "@uri", "text": "@field:text" }], "cursor": "@cursor" } })
}

async fn pages_follow_random_writes(world: World) {
    let mut world = moody(world).await;
    world.note(ALICE, "r0", json!({ "text": "first" })).await;
    let paths = [
        LIST.to_owned(),
        format!("{LIST}?limit=3"),
        format!("{LIST}?did={BOB}&limit=4"),
        format!("{VIEW}?mood=good&limit=4"),
        format!("{VIEW}?limit=50"),
    ];
    let mut pages = Vec::new();
    for path in paths.iter().chain(&paths[..2]) {
        pages.push(Page::open(&world.server, path).await.unwrap());
    }
    let random = Random::system();
    for round in 0..25 {
        for _ in 0..=random.u64() % 6 {
            let did = if random.u64().is_multiple_of(2) { ALICE } else { BOB };
            let rkey = format!("r{}", random.u64() % 8);
            if random.u64().is_multiple_of(3) {
                world.push(|at, rev| Frame::delete(at, Place { did, collection: NOTES, rkey: &rkey, rev }));
            } else {
                let mood = if random.u64().is_multiple_of(2) { "good" } else { "bad" };
                let text = format!("{} {}", random.u64() % 4, "é🦋\"\n".repeat(20));
                let note = json!({ "$type": NOTES, "text": text, "mood": mood, "round": round });
                world.push(|at, rev| {
                    Frame::update(at, Place { did, collection: NOTES, rkey: &rkey, rev }, &note)
                });
            }
        }
        // Sometimes the clients get several changes at once.
        if random.u64().is_multiple_of(2) {
            for page in &mut pages {
                page.settle(&world.server).await;
            }
        }
    }
    let last = world.note(ALICE, "last", json!({ "text": "last" })).await;
    for page in &mut pages {
        page.settle(&world.server).await;
    }
    // Records of the same transaction have no order among each other.
    let records = pages[0].answer["records"].as_array().unwrap();
    assert!(records.iter().any(|record| record["uri"] == json!(last)), "the last write is on the page");
}

async fn what_can_not_be_watched_is_refused(world: World) {
    let world = world.with_notes().await;
    for (path, status) in [
        (format!("{LIST}?limit=x"), 400),
        (format!("{LIST}?cursor=x"), 400),
        (format!("{LIST}?uri=at://{ALICE}/{NOTES}/none"), 404),
    ] {
        assert_eq!(Page::open(&world.server, &path).await.err().unwrap(), status, "{path}");
    }
    let stranger = WebSocket::connect(world.server.address, &format!("/xrpc/{LIST}"), &[]).await;
    assert_eq!(stranger.unwrap_err(), 401, "without a client key");
    world.server.bind(LIST, "function handle() return {} end").await;
    assert_eq!(Page::open(&world.server, LIST).await.err().unwrap(), 501, "a script answers");
}

async fn a_hidden_account_leaves_the_page(world: World) {
    let mut world = world.with_notes().await;
    world.note(ALICE, "a", json!({ "text": "x" })).await;
    let shown = world.note(BOB, "b", json!({ "text": "x" })).await;
    let mut page = Page::open(&world.server, LIST).await.unwrap();
    assert_eq!(page.answer["records"].as_array().unwrap().len(), 2);
    world.account(ALICE, Some("suspended"));
    while page.answer["records"].as_array().unwrap().len() > 1 {
        page.receive().await;
    }
    assert_eq!(page.answer["records"][0]["uri"], json!(shown));
    world.account(ALICE, None);
    while page.answer["records"].as_array().unwrap().len() < 2 {
        page.receive().await;
    }
    page.settle(&world.server).await;
}

async fn a_record_that_is_deleted_ends_its_watch(world: World) {
    let mut world = world.with_notes().await;
    let uri = world.note(ALICE, "a", json!({ "text": "x" })).await;
    let mut page = Page::open(&world.server, &format!("{LIST}?uri={uri}")).await.unwrap();
    world.delete_note(ALICE, "a").await;
    let received = page.socket.receive().await;
    let Received::Json(error) = received else { panic!("{received:?}") };
    assert_eq!((&error["$type"], &error["error"]), (&json!("error"), &json!("NotFound")));
    assert_eq!(page.socket.receive().await, Received::Closed(1008, "NotFound".to_owned()));
}

async fn a_changed_view_ends_its_watch(world: World) {
    let world = moody(world).await;
    let mut page = Page::open(&world.server, VIEW).await.unwrap();
    assert_eq!(page.answer, json!({ "notes": [] }));
    let path = format!("/admin/scripts/xrpc.view%3A{VIEW}");
    let deleted = world.server.admin(Method::DELETE, &path, None).await;
    assert!(deleted.status.is_success(), "{}", deleted.text);
    let closed = tokio::time::timeout(SOON, page.socket.receive()).await.unwrap();
    assert!(matches!(closed, Received::Closed(1001, _)), "{closed:?}");
}
