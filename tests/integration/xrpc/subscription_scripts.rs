//! Subscriptions whose messages a script makes.

use belvedere_standins::jetstream::{Frame, Place};
use belvedere_standins::websocket::{Received, WebSocket};
use http::Method;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;

use super::subscriptions::{SOON, lexicon, receive};
use crate::fixtures::{ALICE, BOB, NOTES, World};

pub const WATCH: &str = "com.example.watchMoods";

pub const TRIGGER: &str = "xrpc.subscription:com.example.watchMoods";

/// One message for each letter of the text, without a number but the last; `level` is a parameter.
const SCRIPT: &str = "function handle()
    if event.action == 'delete' then return { ['$type'] = '#gone', uri = event.uri } end
    local text = event.record.text
    log('ran ' .. event.rkey .. ' ' .. params.level)
    if text == 'nothing' then return nil end
    if text == 'error' then error('broken') end
    if text == 'invalid' then return { { ['$type'] = 'mood', mood = 7 }, { ['$type'] = 'other' }, { ['$type'] = 'mood', mood = 'ok' } } end
    local moods = {}
    for letter in text:gmatch('%a') do
        moods[#moods + 1] = { ['$type'] = 'mood', mood = letter, level = params.level, at = event.time, cid = event.cid, of = event.did }
    end
    return moods
end";

pub fn moods() -> Value {
    let seq = json!({ "type": "integer" });
    json!({ "lexicon": 1, "id": WATCH, "defs": {
        "main": { "type": "subscription", "subprotocol": "xrpc.v1.json",
            "parameters": { "type": "params", "properties": {
                "cursor": { "type": "integer" }, "did": { "type": "string" }, "level": { "type": "integer", "default": 1 } } },
            "message": { "schema": { "type": "union", "refs": ["#mood", "#gone"] } } },
        "mood": { "type": "object", "required": ["mood"], "properties": {
            "seq": seq, "mood": { "type": "string" }, "level": { "type": "integer" },
            "at": { "type": "string", "format": "datetime" }, "cid": { "type": "string", "format": "cid" },
            "of": { "type": "string", "format": "did" } } },
        "gone": { "type": "object", "required": ["seq", "uri"], "properties": {
            "seq": seq, "uri": { "type": "string", "format": "at-uri" } } } } })
}

async fn scripted(world: World) -> World {
    let world = world.with_notes().await;
    world.server.upload(moods(), Some(NOTES)).await;
    world.server.bind_to(TRIGGER, SCRIPT).await;
    world
}

async fn connect(world: &World, query: &str) -> WebSocket {
    let path = format!("/xrpc/{WATCH}?client_key={}&{query}", world.server.client_key);
    WebSocket::connect(world.server.address, &path, &[]).await.unwrap()
}

/// The next message, without its type.
async fn next(socket: &mut WebSocket) -> Value {
    let received = receive(socket).await;
    let Received::Json(mut frame) = received else { panic!("{received:?}") };
    assert_eq!(frame["$type"], "message", "{frame}");
    frame["payload"].take()
}

async fn write(world: &mut World, rkey: &str, text: &str) -> String {
    world.note(ALICE, rkey, json!({ "text": text })).await
}

/// The details of the events of a type.
async fn events(world: &World, kind: &str) -> Vec<Value> {
    let path = format!("/admin/events?event_type={kind}");
    let answer = world.server.admin(Method::GET, &path, None).await;
    answer.body["events"].as_array().unwrap().iter().map(|event| event["detail"].clone()).collect()
}

crate::in_both_worlds!(
    the_script_makes_the_messages_of_each_change,
    a_run_serves_all_connections_with_its_parameters,
    a_lexicon_without_its_script_is_a_warning,
    a_dry_run_shows_the_messages,
    connections_end_when_the_script_comes_or_goes,
    filters_are_those_of_the_built_in_query,
    scripts_that_wait_do_not_hold_up_those_of_another_client
);

async fn the_script_makes_the_messages_of_each_change(world: World) {
    let mut world = scripted(world).await;
    let mut socket = connect(&world, "level=3").await;
    write(&mut world, "a", "xyz").await;
    let made = [next(&mut socket).await, next(&mut socket).await, next(&mut socket).await];
    assert_eq!(made.each_ref().map(|message| &message["mood"]), ["x", "y", "z"]);
    assert_eq!((&made[0]["level"], &made[0]["of"]), (&json!(3), &json!(ALICE)));
    assert_eq!((made[0].get("seq"), made[1].get("seq")), (None, None), "only the last one has it");
    let seq = made[2]["seq"].as_i64().unwrap();
    write(&mut world, "b", "nothing").await;
    write(&mut world, "c", "error").await;
    write(&mut world, "d", "invalid").await;
    let kept = next(&mut socket).await;
    assert_eq!(kept["mood"], "ok", "the others are left out, and the stream goes on");
    world.delete_note(ALICE, "a").await;
    let gone = next(&mut socket).await;
    assert!(gone["$type"].as_str().unwrap().ends_with("#gone"), "{gone}");
    world
        .server
        .eventually("both reasons are events", async |_| {
            events(&world, "script.error").await.len() == 1
                && events(&world, "script.output_invalid").await.len() == 2
        })
        .await;
    let error = events(&world, "script.error").await.remove(0);
    assert!(error["error"].as_str().unwrap().contains("broken"), "{error}");

    // A client that resumes gets what the script makes of the changes since then.
    let mut again = connect(&world, &format!("level=3&cursor={seq}")).await;
    assert_eq!((next(&mut again).await["mood"].clone(), next(&mut again).await), (json!("ok"), gone));
    let mut from_the_start = connect(&world, "level=3&cursor=0").await;
    let all =
        [next(&mut from_the_start).await, next(&mut from_the_start).await, next(&mut from_the_start).await];
    assert_eq!(all, made);
    let late = write(&mut world, "e", "l").await;
    next(&mut from_the_start).await;
    next(&mut from_the_start).await;
    for socket in [&mut socket, &mut again, &mut from_the_start] {
        let message = next(socket).await;
        assert_eq!(message["mood"], "l", "{late}");
    }
}

async fn a_run_serves_all_connections_with_its_parameters(world: World) {
    let mut world = scripted(world).await;
    let mut sockets = Vec::new();
    for query in ["", "", "level=2", "level=2", "level=2", &format!("did={BOB}")] {
        sockets.push(connect(&world, query).await);
    }
    // Each connection has a queue once it has been greeted by a message.
    for n in 0..3 {
        write(&mut world, &format!("n{n}"), "x").await;
    }
    for socket in &mut sockets[..5] {
        while next(socket).await["seq"].is_null() {}
    }
    write(&mut world, "last", "x").await;
    let ran = || async {
        let logged = events(&world, "script.log").await;
        let mut lines: Vec<String> =
            logged.iter().map(|detail| detail["message"].as_str().unwrap().to_owned()).collect();
        lines.retain(|line| line.contains("ran last"));
        lines.sort_unstable();
        lines
    };
    world.server.eventually("two runs", async |_| ran().await.len() >= 2).await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(ran().await, ["ran last 1", "ran last 2"], "none for the account that wrote nothing");
}

async fn a_lexicon_without_its_script_is_a_warning(world: World) {
    let world = world.with_notes().await;
    let body = json!({ "lexicon_json": moods(), "target_collection": NOTES, "backfill": false });
    let created = world.server.admin(Method::POST, "/admin/lexicons", Some(&body)).await;
    let warnings = created.body["warnings"].to_string();
    assert!(warnings.contains("#mood, #gone") && warnings.contains(TRIGGER), "{warnings}");
    let preview = world.server.admin(Method::POST, "/admin/lexicons/preview", Some(&body)).await;
    let warnings = preview.body["lexicons"][0]["warnings"].to_string();
    assert!(warnings.contains(TRIGGER), "{}", preview.text);
    world.server.bind_to(TRIGGER, SCRIPT).await;
    let created = world.server.admin(Method::POST, "/admin/lexicons", Some(&body)).await;
    assert!(created.body.get("warnings").is_none(), "{}", created.text);
    let built_in = json!({ "lexicon_json": lexicon(), "target_collection": NOTES, "backfill": false });
    let created = world.server.admin(Method::POST, "/admin/lexicons", Some(&built_in)).await;
    assert!(created.body.get("warnings").is_none(), "{}", created.text);
    let taken = json!({ "id": "xrpc.subscription:com.atproto.label.subscribeLabels", "body": SCRIPT });
    assert_eq!(world.server.admin(Method::POST, "/admin/scripts", Some(&taken)).await.status, 400);
}

async fn a_dry_run_shows_the_messages(world: World) {
    let world = scripted(world).await;
    let uri = format!("at://{ALICE}/{NOTES}/a");
    let dry_run = async |event: Value| {
        let body = json!({ "id": TRIGGER, "event": event });
        world.server.admin(Method::POST, "/admin/scripts/dry-run", Some(&body)).await
    };
    let record = json!({ "$type": NOTES, "text": "ab" });
    let event = json!({ "type": "change", "uri": uri, "record": record, "params": { "level": 4 } });
    let shown = dry_run(event).await;
    let result = &shown.body["result"];
    assert_eq!(
        (&result["type"], &result["invalid_reason"]),
        (&json!("messages"), &Value::Null),
        "{}",
        shown.text
    );
    let messages = result["messages"].as_array().unwrap();
    assert_eq!((&messages[0]["mood"], &messages[1]["mood"]), (&json!("a"), &json!("b")), "{result}");
    assert_eq!((&messages[0]["level"], &messages[1]["seq"]), (&json!(4), &json!(1)), "{result}");
    assert_eq!(shown.body["event"]["event"]["action"], "create", "{}", shown.text);
    let invalid = json!({ "type": "change", "uri": uri, "record": { "$type": NOTES, "text": "invalid" } });
    let shown = dry_run(invalid).await;
    let reason = shown.body["result"]["invalid_reason"].as_str().unwrap();
    assert!(reason.contains("mood") && reason.contains("#other"), "{reason}");
    let other =
        dry_run(json!({ "type": "change", "uri": "at://did:plc:a/com.example.other/a", "action": "delete" }));
    assert_eq!(other.await.status, 400);
    assert_eq!(
        dry_run(json!({ "type": "change", "uri": uri, "params": { "level": "x" } })).await.status,
        404
    );
    assert_eq!(dry_run(json!({ "type": "request" })).await.status, 400);
}

async fn connections_end_when_the_script_comes_or_goes(world: World) {
    let mut world = scripted(world).await;
    let closed = Received::Closed(1001, "the subscription has changed: connect again".to_owned());
    let mut socket = connect(&world, "").await;
    write(&mut world, "a", "x").await;
    next(&mut socket).await;
    world.server.bind_to(TRIGGER, "function handle() return { ['$type'] = 'mood', mood = 'new' } end").await;
    write(&mut world, "b", "x").await;
    assert_eq!(next(&mut socket).await["mood"], "new");
    let removed = world.server.admin(Method::DELETE, &format!("/admin/scripts/{TRIGGER}"), None).await;
    assert!(removed.status.is_success(), "{}", removed.text);
    assert_eq!(receive(&mut socket).await, closed);
    let mut socket = connect(&world, "").await;
    write(&mut world, "c", "x").await;
    world.server.bind_to(TRIGGER, SCRIPT).await;
    assert_eq!(receive(&mut socket).await, closed, "built-in messages end too");
}

async fn filters_are_those_of_the_built_in_query(world: World) {
    let mut world = world.with_notes().await;
    world.server.upload(lexicon(), Some(NOTES)).await;
    let wanted = format!("at://{ALICE}/{NOTES}/wanted");
    let watch = super::subscriptions::connect;
    let mut one = watch(&world.server, &format!("uri={wanted}"), None).await.unwrap();
    let mut valid = watch(&world.server, "valid=true", None).await.unwrap();
    let mut invalid = watch(&world.server, &format!("valid=false&did={ALICE}"), None).await.unwrap();
    for bad in ["uri=at://x", &format!("uri=at://{ALICE}/com.example.other/a"), "valid=maybe"] {
        assert_eq!(watch(&world.server, bad, None).await.unwrap_err(), 400, "{bad}");
    }
    let broken = json!({ "$type": NOTES, "text": 7 });
    for (did, rkey) in [(BOB, "broken"), (ALICE, "broken")] {
        world.push(|at, rev| Frame::create(at, Place { did, collection: NOTES, rkey, rev }, &broken));
    }
    let first = write(&mut world, "first", "x").await;
    write(&mut world, "wanted", "x").await;
    let mut uris = Vec::new();
    for socket in [&mut one, &mut valid, &mut invalid] {
        uris.push(next(socket).await["uri"].as_str().unwrap().to_owned());
    }
    assert_eq!(uris, [wanted.clone(), first, format!("at://{ALICE}/{NOTES}/broken")]);
    let mut resumed = watch(&world.server, &format!("uri={wanted}&cursor=0"), None).await.unwrap();
    assert_eq!(next(&mut resumed).await["uri"], json!(wanted));
    let silence = tokio::time::timeout(SOON / 60, resumed.receive()).await;
    assert!(silence.is_err(), "{silence:?}");
}

/// Runs of a client wait for a server that does not answer. There are more of them than runs that go on at the same time.
async fn scripts_that_wait_do_not_hold_up_those_of_another_client(world: World) {
    let mut world = world.with_notes().await;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    let script = format!(
        "function handle()
           local ok, fault = true, nil
           if params.level < 10 then ok, fault = pcall(http.get, '{url}') end
           return {{ ['$type'] = 'mood', mood = ok and 'done' or tostring(fault) }}
         end"
    );
    world.server.upload(moods(), Some(NOTES)).await;
    world.server.bind_to(TRIGGER, &script).await;
    let other = world.server.create_client("other").await;
    let mut waiting = Vec::new();
    for level in 1..10 {
        let path = format!("/xrpc/{WATCH}?client_key={other}&level={level}");
        waiting.push(WebSocket::connect(world.server.address, &path, &[]).await.unwrap());
    }
    write(&mut world, "first", "x").await;
    let mut unanswered = Vec::new();
    while unanswered.len() < 4 {
        let accepted = tokio::time::timeout(SOON, silent.accept()).await;
        let (mut stream, _) = accepted.expect("the runs wait for the server").unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            request.push(stream.read_u8().await.unwrap());
        }
        unanswered.push(stream);
    }
    let mut socket = connect(&world, "level=10").await;
    write(&mut world, "last", "x").await;
    assert_eq!(next(&mut socket).await["mood"], "done");
    let waits = |stream: &tokio::net::TcpStream| {
        stream.try_read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    };
    assert!(unanswered.iter().all(waits), "it came after the runs that wait");
}
