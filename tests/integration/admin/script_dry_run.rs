//! `POST /admin/scripts/dry-run`: nothing that a script does in a dry run has an effect.

use crate::fixtures::World;
use http::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::fixtures::{ALICE, BOB, LIST, NOTES};
use crate::support::instance::{Answer, Instance, procedure_lexicon, query_lexicon};

const PATH: &str = "/admin/scripts/dry-run";
const PUT: &str = "com.example.putNote";

async fn send(server: &Instance, body: &Value) -> Answer {
    server.admin(Method::POST, PATH, Some(body)).await
}

async fn dry_run(server: &Instance, id: &str, source: &str, event: Value) -> Value {
    let answer = send(server, &json!({ "id": id, "body": source, "event": event })).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.body
}

fn request() -> Value {
    json!({ "type": "request", "caller_did": ALICE })
}

crate::in_both_worlds!(
    a_record_script_decides_on_an_indexed_record,
    only_readers_of_variables_run_with_their_values,
    a_failure_names_its_line,
    a_profile_is_answered_when_it_is_requested,
    writes_are_collected_and_not_made,
    methods_that_are_called_run_dry_too,
    jobs_labels_and_dead_letters_can_be_tried,
    secrets_are_replaced_by_their_names,
    events_that_do_not_fit_are_refused,
    two_run_at_once_and_a_third_waits_for_a_while
);

async fn a_profile_is_answered_when_it_is_requested(world: World) {
    let mut world = world.with_notes().await;
    for n in 0..3 {
        world.note(ALICE, &format!("n{n}"), json!({ "text": "hello" })).await;
    }
    let server = &world.server;
    server.upload(query_lexicon("com.example.hot"), None).await;
    let script = format!(
        "function handle()\n  local page = db.query({{ collection = '{NOTES}' }})\n  local n = 0\n  for i = 1, 1000 do n = n + i end\n  return {{ n = n }}\nend"
    );
    let id = "xrpc.query:com.example.hot";
    let plain = dry_run(server, id, &script, request()).await;
    assert_eq!(plain["profile"], Value::Null);
    let body = json!({ "id": id, "body": script, "event": request(), "profile": true });
    let answer = send(server, &body).await.body;
    assert_eq!((&answer["ok"], &answer["result"]), (&json!(true), &plain["result"]), "{answer}");
    assert_eq!(answer["usage"]["instructions"], plain["usage"]["instructions"]);
    assert_eq!(answer["usage"]["host_calls"], plain["usage"]["host_calls"]);
    let profile = &answer["profile"];
    let sum = |name: &str| -> u64 {
        profile["places"].as_array().unwrap().iter().map(|place| place[name].as_u64().unwrap()).sum()
    };
    assert_eq!(json!(sum("instructions")), answer["usage"]["instructions"]);
    assert_eq!((json!(sum("host_calls")), sum("rows")), (answer["usage"]["host_calls"].clone(), 3));
    let line = |line: u64| {
        let lines = profile["lines"].as_array().unwrap();
        lines.iter().find(|found| found["file"] == id && found["line"] == line).unwrap().clone()
    };
    assert_eq!(line(2)["rows"], 3);
    assert!(line(4)["instructions"].as_u64().unwrap() > 2_000, "{profile}");

    let dir = tempfile::tempdir().unwrap();
    let (file, out) = (dir.path().join("hot.lua"), dir.path().join("hot.json"));
    std::fs::write(&file, &script).unwrap();
    let (file, path) = (file.display().to_string(), out.display().to_string());
    let url = format!("http://{}", server.address);
    let ran = server.run(&[
        "script",
        "profile",
        id,
        "--body",
        &file,
        "--out",
        &path,
        "--url",
        &url,
        "--key",
        &server.admin_key,
    ]);
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    let hottest = text.lines().nth(1).unwrap_or_default();
    assert!(ran.status.success() && hottest.ends_with(&format!("{id}:4")), "{ran:?}");
    let written: Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    assert_eq!(written["profiles"][0]["endValue"], answer["usage"]["instructions"]);
}

async fn a_record_script_decides_on_an_indexed_record(world: World) {
    let mut world = world.with_notes().await;
    let uri = world.note(ALICE, "one", json!({ "text": "hello" })).await;
    let server = &world.server;
    let id = format!("record.index:{NOTES}");
    let event = json!({ "type": "record", "uri": uri });
    let script = "function handle()\n  log('saw ' .. record.text)\n  print('p')\n  record.text = 'changed'\n  return record\nend";
    let answer = dry_run(server, &id, script, event.clone()).await;
    assert_eq!((&answer["ok"], &answer["error"]), (&json!(true), &Value::Null));
    assert_eq!(answer["result"]["type"], "replace");
    assert_eq!(answer["result"]["record"]["text"], "changed");
    assert_eq!(
        (&answer["event"]["record"]["text"], &answer["event"]["action"]),
        (&json!("hello"), &json!("create"))
    );
    assert_eq!(
        answer["logs"],
        json!([{ "level": "info", "message": "saw hello" }, { "level": "debug", "message": "p" }])
    );
    let usage = &answer["usage"];
    let instructions = usage["instructions"].as_u64().unwrap();
    assert!((5..1_000).contains(&instructions), "{usage}");
    assert!(usage["fuel"].as_u64().unwrap() > 1_000 && usage["host_calls"] == 2, "{usage}");
    let row = server.xrpc(&format!("{LIST}?uri={uri}")).await;
    assert_eq!(row.body["record"]["text"], "hello");
    assert_eq!(
        server.admin(Method::GET, "/admin/events?event_type=script.log", None).await.body["events"],
        json!([])
    );
    assert_eq!(server.admin(Method::GET, "/admin/stats/scripts", None).await.body["scripts"], json!([]));

    let verdict = async |script: &str, event: Value| {
        dry_run(server, &id, script, event).await["result"]["type"].clone()
    };
    assert_eq!(verdict("function handle() end", event.clone()).await, "skip");
    assert_eq!(verdict("function handle() return true end", event.clone()).await, "proceed");
    let given =
        json!({ "type": "record", "uri": format!("at://{BOB}/{NOTES}/x"), "record": { "text": "mine" } });
    assert_eq!(verdict("function handle() return record.text == 'mine' or nil end", given).await, "proceed");
    let delete = json!({ "type": "record", "uri": uri, "action": "delete" });
    assert_eq!(
        verdict("function handle() return action == 'delete' and record == nil or nil end", delete).await,
        "proceed"
    );
}

async fn only_readers_of_variables_run_with_their_values(world: World) {
    let world = world.with_notes().await;
    let server = &world.server;
    let variable = json!({ "key": "API_KEY", "value": "s3cret-value" });
    assert!(server.admin(Method::POST, "/admin/script-variables", Some(&variable)).await.status.is_success());
    let of = async |permissions: Value| {
        let key = json!({ "name": "k", "permissions": permissions });
        let key = server.admin(Method::POST, "/admin/api-keys", Some(&key)).await;
        format!("Bearer {}", key.body["key"].as_str().unwrap())
    };
    let id = format!("xrpc.query:{LIST}");
    let script = "function handle() return { key = env.API_KEY:reverse(), guess = 's3cret-value' } end";
    let body = json!({ "id": id, "body": script, "event": request() }).to_string();
    // A correct guess of the script is hidden only from users who have the values: otherwise the answer would
    // confirm it.
    for (permissions, value, guess, has_note) in [
        (json!(["scripts:manage"]), "]YEK_IPA.vne[", "s3cret-value", true),
        (json!(["scripts:manage", "script-variables:read"]), "eulav-terc3s", "[env.API_KEY]", false),
    ] {
        let bearer = of(permissions).await;
        let headers = [("authorization", &*bearer)];
        let answer = server.request(Method::POST, PATH, &headers, Some(body.clone())).await;
        assert_eq!(answer.body["result"]["body"], json!({ "key": value, "guess": guess }), "{}", answer.text);
        assert_eq!(
            answer.body["notes"].to_string().contains("script-variables:read"),
            has_note,
            "{}",
            answer.text
        );
    }
    let events = server.admin(Method::GET, "/admin/events?event_type=script.dry_run", None).await;
    let events = events.body["events"].as_array().unwrap().clone();
    assert_eq!(events.len(), 2, "each dry run is an event");
    assert_eq!(
        (&events[0]["subject"], &events[0]["detail"]),
        (&json!(id), &json!({ "stored": false, "network": false, "ok": true }))
    );
}

async fn a_failure_names_its_line(world: World) {
    let world = world.with_notes().await;
    let server = &world.server;
    let id = format!("xrpc.query:{LIST}");
    for (script, kind, line) in [
        ("function handle()\n  return nil + 1\nend", "runtime", json!(2)),
        ("function handle()\n  while true do end\nend", "limit", json!(2)),
        ("function handle(", "syntax", json!(1)),
        ("x = 1", "missing_handle", Value::Null),
    ] {
        let answer = dry_run(server, &id, script, request()).await;
        assert_eq!((&answer["ok"], &answer["result"]), (&json!(false), &Value::Null), "{answer}");
        assert_eq!((&answer["error"]["kind"], &answer["error"]["line"]), (&json!(kind), &line), "{answer}");
    }
    let endless = dry_run(server, &id, "function handle() while true do end end", request()).await;
    assert_eq!(endless["usage"]["instructions"], endless["usage"]["instructions_limit"]);
    // A status that the script raises is its answer.
    let raised = "function handle() error({ status = 404, error = 'NotFound' }) end";
    let answer = dry_run(server, &id, raised, request()).await;
    assert_eq!((&answer["ok"], &answer["result"]["status"]), (&json!(true), &json!(404)));
    assert_eq!(answer["result"]["body"]["error"], "NotFound");
}

async fn writes_are_collected_and_not_made(world: World) {
    let mut world = world.with_notes().await;
    let uri = world.note(ALICE, "one", json!({ "text": "hello" })).await;
    let server = &world.server;
    server.upload(procedure_lexicon(PUT), Some(NOTES)).await;
    server.bind_to("job.run:recount", "function handle() end").await;
    let script = r#"
function handle()
  local made = Record(collection, { text = input.text }):save()
  local other = Record.load("URI")
  other.text = "other"
  other:save()
  other:delete()
  Record(collection, { text = "local" }):set_rkey("k"):save_local()
  local had = Record.delete_local("URI")
  db.raw("CREATE TABLE script_seen (uri text)")
  db.raw("INSERT INTO script_seen (uri) VALUES ($1)", { "x" })
  jobs.create("recount", { a = 1 })
  local sent = http.post("https://example.com/hook", { body = "12345" })
  local nested = xrpc.procedure("com.example.putNote", { text = "nested" })
  local ok, fault = pcall(http.get, "https://example.com/")
  local signed, why = pcall(atproto.service_token, "did:web:example.com", "com.example.a")
  local called, whose = pcall(xrpc.query, "com.example.elsewhere")
  return { uri = made._uri, cid = made._cid, had = had, sent = sent.status, nested = nested.status, code = fault.code,
    why = why.code, whose = whose.code, count = db.count(collection), caller = caller_did }
end"#.replace("URI", &uri);
    let event = json!({ "type": "request", "caller_did": ALICE, "input": { "text": "new" } });
    // The lexicon's own script is not bound, so the nested call is a built-in write.
    let answer = dry_run(
        server,
        "xrpc.procedure:com.example.own",
        &script.replace("collection", &format!("{NOTES:?}")),
        event,
    )
    .await;
    assert_eq!(answer["ok"], true, "{answer}");
    let body = &answer["result"]["body"];
    assert!(body["uri"].as_str().unwrap().starts_with(&format!("at://{ALICE}/{NOTES}/")), "{body}");
    assert!(body["cid"].as_str().unwrap().starts_with("bafyrei"), "{body}");
    assert_eq!((&body["had"], &body["sent"], &body["nested"]), (&json!(true), &json!(204), &json!(200)));
    assert_eq!(
        (&body["code"], &body["why"], &body["whose"]),
        (&json!("forbidden"), &json!("forbidden"), &json!("forbidden"))
    );
    assert_eq!((&body["count"], &body["caller"]), (&json!(1), &json!(ALICE)));
    let kinds: Vec<&str> =
        answer["writes"].as_array().unwrap().iter().map(|w| w["kind"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "record.create",
            "record.update",
            "record.delete",
            "index.save",
            "index.delete",
            "sql",
            "sql",
            "job.create",
            "http.request",
            "xrpc.procedure",
        ]
    );
    assert_eq!(answer["writes"][0]["record"]["text"], "new");
    assert_eq!(answer["writes"][8]["body_bytes"], 5);
    assert_eq!(
        answer["refused"],
        json!(["atproto.service_token", "http.get", "xrpc.query of com.example.elsewhere"])
    );

    assert_eq!(server.xrpc(&format!("{LIST}?uri={uri}")).await.body["record"]["text"], "hello");
    assert_eq!(server.records().await, 1);
    assert_eq!(server.admin(Method::GET, "/admin/jobs", None).await.body["jobs"], json!([]));
    let tables = dry_run(
        server,
        &format!("xrpc.query:{LIST}"),
        "function handle() return db.raw('SELECT * FROM script_seen') end",
        request(),
    )
    .await;
    assert_eq!(tables["ok"], false, "the table was not made");
}

async fn methods_that_are_called_run_dry_too(world: World) {
    let mut world = world.with_notes().await;
    world.note(ALICE, "one", json!({ "text": "hello" })).await;
    let server = &world.server;
    let inner = "com.example.inner";
    server.upload(query_lexicon(inner), Some(NOTES)).await;
    server.bind(inner, "function handle() log('inner') Record(collection, { text = 'x' }):set_repo('did:plc:bobbobbobbobbobbobbobbob'):set_rkey('k'):save_local() return { n = 1 } end").await;
    let script = format!(
        "function handle() return {{ inner = json.decode(xrpc.query('{inner}').body), list = json.decode(xrpc.query('{LIST}').body) }} end"
    );
    let answer = dry_run(server, "xrpc.query:com.example.outer", &script, request()).await;
    assert_eq!(answer["result"]["body"]["inner"], json!({ "n": 1 }), "{answer}");
    assert_eq!(answer["result"]["body"]["list"]["records"][0]["text"], "hello");
    assert_eq!(answer["logs"][0]["message"], "inner");
    assert_eq!(answer["writes"][0]["kind"], "index.save");
    assert_eq!(server.records().await, 1);
}

async fn jobs_labels_and_dead_letters_can_be_tried(world: World) {
    let mut world = world.with_notes().await;
    let job = "function handle()\n  job.progress({ n = job.input.n })\n  job.wait(3600)\n  return { n = job.input.n, stop = job.should_stop() }\nend";
    let answer =
        dry_run(&world.server, "job.run:count", job, json!({ "type": "job", "input": { "n": 3 } })).await;
    assert_eq!(
        answer["result"],
        json!({ "type": "finished", "value": { "n": 3, "stop": false } }),
        "{answer}"
    );
    assert_eq!(answer["writes"], json!([{ "kind": "job.progress", "value": { "n": 3 } }]));
    assert_eq!(answer["usage"]["instructions"], Value::Null);

    let label = json!({ "type": "label", "src": BOB, "uri": ALICE, "val": "spam" });
    let script = "function handle() if val == 'spam' then return { val = 'ham' } end end";
    let answer = dry_run(&world.server, "labeler.apply:_actor", script, label.clone()).await;
    assert_eq!(
        (&answer["result"]["type"], &answer["result"]["label"]["val"]),
        (&json!("replace"), &json!("ham"))
    );
    let answer = dry_run(&world.server, "labeler.apply:_actor", "function handle() end", label.clone()).await;
    assert_eq!(answer["result"]["type"], "drop");
    let script = format!("function handle() return {{ uri = 'at://{BOB}/space/a.b.c/main' }} end");
    let answer = dry_run(&world.server, "labeler.apply:_actor", &script, label).await;
    assert_eq!(
        answer["error"]["message"], "handle() returned a label whose uri is an address in a space",
        "{answer}"
    );

    world.server.bind_to(&format!("record.index:{NOTES}"), "function handle() error('no') end").await;
    world.note(ALICE, "bad", json!({ "text": "bad" })).await;
    let letters = world.server.admin(Method::GET, "/admin/dead-letters", None).await;
    let id = &letters.body["dead_letters"][0]["id"];
    let event = json!({ "type": "dead_letter", "id": id });
    let answer = dry_run(
        &world.server,
        &format!("record.index:{NOTES}"),
        "function handle() return record.text == 'bad' or nil end",
        event.clone(),
    )
    .await;
    assert_eq!(answer["result"]["type"], "proceed", "{answer}");
    // Without a body the stored script runs.
    let stored = send(&world.server, &json!({ "id": format!("record.index:{NOTES}"), "event": event })).await;
    assert_eq!(stored.body["error"]["message"], "no");
    let count = world.server.admin(Method::GET, "/admin/dead-letters/count", None).await;
    assert_eq!(count.body["count"], 1, "{}", count.text);
}

async fn secrets_are_replaced_by_their_names(world: World) {
    let world = world.with_notes().await;
    let variable = json!({ "key": "API_KEY", "value": "a-very-secret-value" });
    world.server.admin(Method::POST, "/admin/script-variables", Some(&variable)).await;
    let script = "function handle() log(env.API_KEY) http.post('https://example.com/?key=' .. env.API_KEY) return { key = env.API_KEY } end";
    let answer = dry_run(&world.server, &format!("xrpc.query:{LIST}"), script, request()).await;
    assert_eq!(answer["result"]["body"]["key"], "[env.API_KEY]");
    assert!(!answer.to_string().contains("a-very-secret-value"), "{answer}");
}

async fn events_that_do_not_fit_are_refused(world: World) {
    let world = world.with_notes().await;
    let record = json!({ "type": "record", "uri": format!("at://{ALICE}/{NOTES}/x"), "record": {} });
    let with = |more: Value| {
        let mut event = record.clone();
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    };
    let (index, query) = (format!("record.index:{NOTES}"), format!("xrpc.query:{LIST}"));
    let in_space = format!("at://{BOB}/space/com.example.group/main/{ALICE}/{NOTES}/x");
    for (id, event, status) in [
        (&*index, request(), 400),
        (&*query, record.clone(), 400),
        ("job.run:a", request(), 400),
        (
            "labeler.apply:com.example.other",
            json!({ "type": "label", "src": BOB, "uri": ALICE, "val": "x" }),
            400,
        ),
        ("labeler.apply:_actor", json!({ "type": "label", "src": "bob", "uri": ALICE, "val": "x" }), 400),
        (
            "labeler.apply:_actor",
            json!({ "type": "label", "src": BOB, "uri": ALICE, "val": "x", "exp": "soon" }),
            400,
        ),
        ("labeler.apply:_actor", json!({ "type": "label", "src": BOB, "uri": in_space, "val": "x" }), 400),
        (&*index, with(json!({ "uri": in_space })), 400),
        ("record.index:com.example.other", record.clone(), 400),
        (&format!("record.delete:{NOTES}"), with(json!({ "action": "create" })), 400),
        (&*index, with(json!({ "action": "explode" })), 400),
        (&*index, with(json!({ "record": [1] })), 400),
        (&*index, with(json!({ "record": null })), 404),
        (&*index, with(json!({ "uri": "nonsense" })), 400),
        (&*index, json!({ "type": "dead_letter", "id": "77" }), 404),
        (&*query, json!({ "type": "request", "caller_did": "alice" }), 400),
        (&*query, json!({ "type": "request", "params": [1] }), 400),
        (&*query, json!({ "type": "other" }), 400),
        ("nope", request(), 400),
    ] {
        let answer =
            send(&world.server, &json!({ "id": id, "body": "function handle() end", "event": event })).await;
        assert_eq!(answer.status, status, "{id} {event}: {}", answer.text);
    }
    let answer = send(&world.server, &json!({ "id": query, "event": request() })).await;
    assert_eq!(answer.status, 404, "there is no stored script");
    let read_only = world.server.create_key(&["--did", BOB, "--permissions", "viewer"]);
    let body = json!({ "id": query, "body": "function handle() end", "event": request() });
    let refused = world
        .server
        .request(
            Method::POST,
            PATH,
            &[("authorization", &format!("Bearer {read_only}"))],
            Some(body.to_string()),
        )
        .await;
    assert_eq!(refused.status, 403);
}

async fn two_run_at_once_and_a_third_waits_for_a_while(world: World) {
    let world = world.with_notes().await;
    let server = &world.server;
    // A server that answers when the test lets it.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let waits = format!(
        "function handle() pcall(http.get, 'http://{}/') return {{}} end",
        silent.local_addr().unwrap()
    );
    let id = format!("xrpc.query:{LIST}");
    let body = |source: &str| json!({ "id": id, "body": source, "network": true, "event": request() });
    let (waiting, quick) = (body(&waits), body("function handle() return {} end"));
    let third = async {
        let held = (silent.accept().await.unwrap(), silent.accept().await.unwrap());
        let third = send(server, &quick).await;
        drop((held, silent));
        third
    };
    let (first, second, third) = tokio::join!(send(server, &waiting), send(server, &waiting), third);
    assert_eq!(third.status, 503, "{}", third.text);
    assert_eq!(third.error(), "too many dry runs are running; try again");
    assert_eq!([first.status, second.status], [200, 200], "{} {}", first.text, second.text);
    assert_eq!(send(server, &quick).await.status, 200, "the places are free again");
}
