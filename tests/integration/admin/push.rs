//! `POST /admin/push`

use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{BOB, LIST, NOTES, World};
use crate::support::instance::{Answer, Instance, query_lexicon, record_lexicon};

crate::in_both_worlds!(
    an_app_is_stored_as_one_version,
    a_mistake_anywhere_leaves_everything_as_it_was,
    what_the_lists_lack_is_deleted_if_asked_for,
    a_view_and_a_script_replace_each_other,
    a_lexicon_may_not_break_a_view_that_stays
);

const QUERY: &str = "xrpc.query:com.example.listNotes";
const VIEW: &str = "xrpc.view:com.example.listNotes";

const COUNT: &str = "function handle() return { n = db.raw('SELECT n FROM script_pushed')[1].n, of = require('words').of } end";

/// A setup that needs a library of its own push.
const TABLE: &str = "local words = require('words')
function handle()
  db.raw('CREATE TABLE IF NOT EXISTS script_pushed (id integer PRIMARY KEY, n integer NOT NULL)')
  db.raw('INSERT INTO script_pushed (id, n) VALUES (1, ' .. words.n .. ') ON CONFLICT (id) DO UPDATE SET n = excluded.n')
end";

fn script(id: &str, body: &str) -> Value {
    json!({ "id": id, "body": body })
}

fn lexicons(documents: &[Value]) -> Value {
    documents.iter().map(|document| json!({ "lexicon_json": document, "backfill": false })).collect()
}

/// Lexicons, a library, a setup and a query that require it.
fn app() -> Value {
    json!({
        "lexicons": lexicons(&[record_lexicon(NOTES), query_lexicon(LIST)]),
        "scripts": [
            script(QUERY, COUNT),
            script("setup:tables", TABLE),
            script("lib:words", "return { n = 7, of = 'words' }"),
        ],
    })
}

async fn push(server: &Instance, body: &Value) -> Answer {
    server.admin(Method::POST, "/admin/push", Some(body)).await
}

fn changes<'a>(answer: &'a Answer, part: &str) -> Vec<(&'a str, &'a str)> {
    let all = answer.body[part].as_array().unwrap_or_else(|| panic!("{}", answer.text));
    all.iter().map(|one| (one["id"].as_str().unwrap(), one["change"].as_str().unwrap())).collect()
}

async fn stored(server: &Instance) -> (Vec<String>, Vec<String>) {
    let ids = async |path: &str| {
        let list = server.admin(Method::GET, path, None).await.body;
        list.as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    (ids("/admin/lexicons").await, ids("/admin/scripts").await)
}

async fn an_app_is_stored_as_one_version(world: World) {
    let server = &world.server;
    let mut dry = app();
    dry["dry_run"] = json!(true);
    let new = |answer: &Answer| {
        assert_eq!(answer.status, 200, "{}", answer.text);
        assert_eq!(changes(answer, "lexicons"), [(NOTES, "new"), (LIST, "new")]);
        let scripts = [(QUERY, "new"), ("setup:tables", "new"), ("lib:words", "new")];
        assert_eq!(changes(answer, "scripts"), scripts);
    };
    let planned = push(server, &dry).await;
    new(&planned);
    assert_eq!(planned.body["stored"], false);
    assert_eq!(stored(server).await, (vec![], vec![]), "a dry run stores nothing");

    let pushed = push(server, &app()).await;
    new(&pushed);
    assert_eq!(pushed.body["stored"], true);
    assert_eq!(server.xrpc(LIST).await.body, json!({ "n": 7, "of": "words" }));
    let events = server.admin(Method::GET, "/admin/events?event_type=script.created", None).await;
    assert_eq!(events.body["events"].as_array().unwrap().len(), 3, "{}", events.text);

    // The same once more is no change. A changed library changes its users at once, and the description of a script stays.
    let again = push(server, &app()).await;
    assert_eq!((again.status.as_u16(), &again.body["stored"]), (200, &json!(false)), "{}", again.text);
    assert!(changes(&again, "scripts").iter().all(|(_, change)| *change == "unchanged"), "{}", again.text);
    let path = format!("/admin/scripts/{QUERY}");
    let described = json!({ "description": "Counts" });
    assert_eq!(server.admin(Method::PATCH, &path, Some(&described)).await.status, 200);
    let mut second = app();
    second["scripts"][0]["body"] = json!(COUNT.replace("of =", "second ="));
    second["scripts"][2]["body"] = json!("return { n = 8, of = 'more words' }");
    let answer = push(server, &second).await;
    let scripts = [(QUERY, "changed"), ("setup:tables", "unchanged"), ("lib:words", "changed")];
    assert_eq!(changes(&answer, "scripts"), scripts, "{}", answer.text);
    let found = server.xrpc(LIST).await.body;
    assert_eq!(found, json!({ "n": 7, "second": "more words" }), "a setup runs once for a body");
    let row = server.admin(Method::GET, &path, None).await.body;
    assert_eq!((&row["description"], &row["revision"]), (&json!("Counts"), &json!(3)), "{row}");

    // The permissions are those of the parts.
    let key = server.create_key(&["--did", BOB, "--permissions", "scripts:read,scripts:manage"]);
    let authorization = format!("Bearer {key}");
    let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
    let as_bob = async |body: &Value| {
        server.request(Method::POST, "/admin/push", &headers, Some(body.to_string())).await
    };
    let refused = as_bob(&app()).await;
    assert_eq!(refused.status, 403);
    assert!(refused.text.contains("lexicons:create"), "{}", refused.text);
    let mut only_scripts = app();
    only_scripts.as_object_mut().unwrap().remove("lexicons");
    assert_eq!(as_bob(&only_scripts).await.status, 200);
}

async fn a_mistake_anywhere_leaves_everything_as_it_was(world: World) {
    let server = &world.server;
    assert_eq!(push(server, &app()).await.status, 200);
    let before = stored(server).await;
    let with = |change: &dyn Fn(&mut Value)| {
        let mut body = app();
        body["lexicons"]
            .as_array_mut()
            .unwrap()
            .extend(lexicons(&[query_lexicon("com.example.other")]).as_array().unwrap().iter().cloned());
        change(&mut body);
        body
    };
    let add = |body: &mut Value, id: &str, source: &str| {
        body["scripts"].as_array_mut().unwrap().push(script(id, source));
    };
    let cases: Vec<(&str, Value)> = vec![
        (
            "1 of 3 scripts is refused, so none was stored: xrpc.query:com.example.listNotes: ",
            with(&|body| {
                body["scripts"][0]["body"] = json!("function handle(");
            }),
        ),
        (
            "there is no library \"missing\"",
            with(&|body| add(body, "job.run:a", "require('missing') function handle() end")),
        ),
        ("scripts[3]: ", with(&|body| add(body, "nonsense", ""))),
        (
            "scripts[3] (lib:words): another one has the same id",
            with(&|body| add(body, "lib:words", "return 1")),
        ),
        ("is there too", with(&|body| add(body, VIEW, r#"{ "view": 1, "from": "com.example.note" }"#))),
        (
            "the setup failed and was not saved: ",
            with(&|body| {
                body["scripts"][1]["body"] = json!("function handle() error('no table today') end");
            }),
        ),
        (
            "lexicons[3]: ",
            with(&|body| {
                body["lexicons"].as_array_mut().unwrap().push(json!({ "lexicon_json": 7 }));
            }),
        ),
        // A user of the library that is not pushed would not load any more.
        (
            "setup:tables would not load any more: ",
            json!({
                "scripts": [script("lib:words", "error('no words')")],
            }),
        ),
        ("invalid request body", json!({ "scripts": 7 })),
    ];
    for (message, body) in cases {
        for dry_run in [true, false] {
            let mut body = body.clone();
            body["dry_run"] = json!(dry_run);
            if dry_run && message.contains("the setup failed") {
                continue;
            }
            let answer = push(server, &body).await;
            assert_eq!(answer.status, 400, "{message}: {}", answer.text);
            assert!(answer.error().contains(message), "{message}: {}", answer.text);
        }
        assert_eq!(stored(server).await, before, "{message}");
    }
    assert_eq!(server.xrpc(LIST).await.body, json!({ "n": 7, "of": "words" }));
    for text in ["a\u{0}b", "\u{0}"] {
        let body = json!({ "scripts": [script("lib:nul", text), script(text, "return 1")] });
        let answer = push(server, &body).await;
        assert_eq!(answer.status, 400, "{}", answer.text);
    }
}

async fn what_the_lists_lack_is_deleted_if_asked_for(world: World) {
    let server = &world.server;
    assert_eq!(push(server, &app()).await.status, 200);
    server.upload(query_lexicon("com.example.old"), None).await;
    server.bind_to("job.run:old", "require('words') function handle() end").await;
    let mut smaller = app();
    smaller["lexicons"].as_array_mut().unwrap().truncate(1);
    smaller["scripts"] = json!([]);
    smaller["delete_others"] = json!(true);
    let answer = push(server, &smaller).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.body["deleted_lexicons"], json!([LIST, "com.example.old"]), "{}", answer.text);
    let deleted = json!(["job.run:old", "lib:words", "setup:tables", QUERY]);
    assert_eq!(answer.body["deleted_scripts"], deleted);
    assert_eq!(stored(server).await, (vec![NOTES.to_owned()], vec![]));
    // The histories of deleted scripts stay.
    let gone = server.admin(Method::GET, "/admin/scripts/deleted", None).await;
    assert!(gone.text.contains("lib:words"), "{}", gone.text);
    // A list that is not sent deletes nothing.
    assert_eq!(push(server, &app()).await.status, 200);
    let scripts = json!({ "scripts": app()["scripts"], "delete_others": true });
    assert_eq!(push(server, &scripts).await.body["stored"], false);
    assert_eq!(stored(server).await.0.len(), 2);
}

/// A query whose output a view can have, and the view.
fn viewed() -> (Value, Value) {
    let mut lexicon = query_lexicon(LIST);
    let keys = json!({ "type": "array", "items": { "type": "object", "properties": { "key": { "type": "string" } } } });
    lexicon["defs"]["main"]["output"] = json!({ "encoding": "application/json", "schema": {
        "type": "object", "required": ["keys"], "properties": { "keys": keys },
    }});
    let view = json!({ "view": 1, "from": NOTES, "output": { "keys": [{ "key": "@rkey" }] } });
    (lexicon, script(VIEW, &view.to_string()))
}

async fn a_view_and_a_script_replace_each_other(world: World) {
    let server = &world.server;
    let (lexicon, view) = viewed();
    let documents = json!({ "lexicons": lexicons(&[record_lexicon(NOTES), lexicon]) });
    assert_eq!(push(server, &documents).await.status, 200);
    let of_script = json!({ "scripts": [script(QUERY, "function handle() return { keys = {} } end")] });
    assert_eq!(push(server, &of_script).await.status, 200);
    let answer = push(server, &json!({ "scripts": [view] })).await;
    assert!(answer.status == 400 && answer.text.contains(QUERY), "{}", answer.text);
    let answer = push(server, &json!({ "scripts": [view], "delete_others": true })).await;
    assert_eq!(answer.body["deleted_scripts"], json!([QUERY]), "{}", answer.text);
    assert_eq!(server.xrpc(LIST).await.status, 200);
    let mut back = of_script.clone();
    back["delete_others"] = json!(true);
    assert_eq!(push(server, &back).await.body["deleted_scripts"], json!([VIEW]));
    assert_eq!(server.xrpc(LIST).await.body, json!({ "keys": [] }));
}

async fn a_lexicon_may_not_break_a_view_that_stays(world: World) {
    let server = &world.server;
    let (lexicon, view) = viewed();
    // A view is checked with the lexicon that comes with it.
    let whole = json!({ "lexicons": lexicons(&[record_lexicon(NOTES), lexicon.clone()]), "scripts": [view] });
    let answer = push(server, &whole).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let mut strict = lexicon;
    strict["defs"]["main"]["output"]["schema"] =
        json!({ "type": "object", "required": ["total"], "properties": { "total": { "type": "integer" } } });
    let body = json!({ "lexicons": lexicons(&[strict.clone()]), "keep_settings": true });
    let answer = push(server, &body).await;
    assert_eq!(answer.status, 400, "{}", answer.text);
    assert!(answer.error().contains(VIEW) && answer.error().contains("would not fit"), "{}", answer.text);
    // With a script in the place of the view it may.
    let counts = script(QUERY, "function handle() return { total = 1 } end");
    let body = json!({ "lexicons": lexicons(&[strict]), "scripts": [counts], "delete_others": true });
    let answer = push(server, &body).await;
    assert_eq!(answer.body["deleted_scripts"], json!([VIEW]), "{}", answer.text);
    assert_eq!(answer.body["deleted_lexicons"], json!([NOTES]));
    assert_eq!(server.xrpc(LIST).await.body, json!({ "total": 1 }));
}
