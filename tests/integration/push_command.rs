//! `belvedere push` and `pull`, and `diff` with a folder, against a running server.

use std::fs;
use std::path::Path;
use std::process::Output;

use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{LIST, NOTES, World};
use crate::support::instance::{Instance, query_lexicon, record_lexicon};

const WORDS: &str = "return { list = 'notes' }\n";
const QUERY: &str = "function handle()\n  return { of = require('words').list }\nend\n";
const TEST: &str = "test('it names its list', function()\n  expect(call.query('com.example.listNotes').body).equals({ of = 'notes' })\nend)\n";

fn write(dir: &Path, path: &str, text: &str) {
    let path = dir.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn go(server: &Instance, arguments: &[&str]) -> Output {
    let url = format!("http://{}", server.address);
    server.run(&[arguments, &["--url", &url, "--key", &server.admin_key]].concat())
}

async fn target(server: &Instance) -> Value {
    let lexicon = server.admin(Method::GET, &format!("/admin/lexicons/{LIST}"), None).await;
    lexicon.body["target_collection"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_app_is_tested_shown_pushed_compared_and_pulled() {
    let world = World::sqlite().await;
    let server = &world.server;
    let dir = tempfile::tempdir().unwrap();
    let app = dir.path().display().to_string();
    let empty = go(server, &["push", &app]);
    assert!(err(&empty).contains("neither lexicons nor scripts"), "{}", err(&empty));

    write(dir.path(), "lexicons/com/example/note.json", &record_lexicon(NOTES).to_string());
    write(dir.path(), "lexicons/com/example/listNotes.json", &query_lexicon(LIST).to_string());
    write(
        dir.path(),
        "app.json",
        &json!({ "lexicons": { LIST: { "target_collection": NOTES } } }).to_string(),
    );
    write(dir.path(), "scripts/lib/words.lua", WORDS);
    write(dir.path(), &format!("scripts/xrpc.query/{LIST}.lua"), QUERY);
    write(dir.path(), "scripts/test/list.lua", &TEST.replace("'notes' }", "'songs' }"));
    let none = json!([]);
    let failed = go(server, &["push", &app]);
    assert_eq!(failed.status.code(), Some(1), "{}{}", out(&failed), err(&failed));
    assert!(err(&failed).contains("a test failed, so nothing was pushed"), "{}", err(&failed));
    assert_eq!(server.admin(Method::GET, "/admin/lexicons", None).await.body, none);

    write(dir.path(), "scripts/test/list.lua", TEST);
    let shown = go(server, &["push", &app, "--dry-run"]);
    assert!(shown.status.success(), "{}{}", out(&shown), err(&shown));
    for line in [format!("would be created: {NOTES}\n"), "would be created: lib:words\n".to_owned()] {
        assert!(out(&shown).contains(&line), "{}{}", out(&shown), err(&shown));
    }
    assert_eq!(server.admin(Method::GET, "/admin/lexicons", None).await.body, none);
    let pushed = go(server, &["push", &app, "--no-backfill"]);
    assert!(pushed.status.success(), "{}{}", out(&pushed), err(&pushed));
    assert!(out(&pushed).contains("pushed, as one version:\ncreated: lib:words\n"), "{}", out(&pushed));
    assert_eq!(server.xrpc(LIST).await.body, json!({ "of": "notes" }));
    assert_eq!(target(server).await, NOTES);
    let again = go(server, &["push", &app]);
    assert!(again.status.success() && !out(&again).contains("pushed"), "{}{}", out(&again), err(&again));

    // Compared: equal, and then with a change on each side.
    let diff = || go_diff(server, &app);
    assert!(out(&diff()).contains("4 parts equal, 0 different"), "{}{}", out(&diff()), err(&diff()));
    write(dir.path(), "scripts/lib/words.lua", "return { list = 'songs' }\n");
    server.upload(query_lexicon("com.example.other"), None).await;
    let different = diff();
    assert_eq!(different.status.code(), Some(1));
    for line in ["different: lib:words\n", "only in the second: lexicon com.example.other\n"] {
        assert!(out(&different).contains(line), "{}{}", out(&different), err(&different));
    }

    // Pulled: the server's version, with the settings.
    let copy = dir.path().join("copy").display().to_string();
    let pulled = go(server, &["pull", &copy]);
    assert!(pulled.status.success(), "{}{}", out(&pulled), err(&pulled));
    let settings: Value =
        serde_json::from_slice(&fs::read(dir.path().join("copy/app.json")).unwrap()).unwrap();
    assert_eq!(settings, json!({ "lexicons": { LIST: { "target_collection": NOTES } } }));
    assert_eq!(fs::read_to_string(dir.path().join("copy/scripts/lib/words.lua")).unwrap(), WORDS);
    let other = dir.path().join("copy/lexicons/com/example/other.json");
    assert!(other.exists());

    // Parts that the folder lacks stay on the server, unless they are to be deleted.
    assert!(go(server, &["push", &app, "--no-tests"]).status.success());
    assert_eq!(server.xrpc(LIST).await.body, json!({ "of": "songs" }));
    let with = go(server, &["push", &app, "--no-tests", "--delete", "--dry-run"]);
    assert!(out(&with).contains("would be deleted: com.example.other\n"), "{}{}", out(&with), err(&with));
    let with = go(server, &["push", &app, "--no-tests", "--delete"]);
    assert!(out(&with).contains("deleted: com.example.other\n"), "{}{}", out(&with), err(&with));

    // A mistake anywhere, and nothing is pushed.
    write(dir.path(), "scripts/lib/more.lua", "return 1\n");
    for (path, text, message) in [
        ("app.json", "{ \"lexicons\": { \"com.example.nowhere\": {} } }", "which has no file"),
        ("app.json", "7", "app.json is not {\"lexicons\": {NSID: settings}}"),
        ("scripts/job.run/a.lua", "function handle(", "so nothing was pushed"),
        ("lexicons/com/example/bad.json", "{ \"lexicon\": 1 }", "lexicons/com/example/bad.json"),
    ] {
        let before = fs::read_to_string(dir.path().join(path)).ok();
        write(dir.path(), path, text);
        let refused = go(server, &["push", &app, "--no-tests"]);
        assert_eq!(refused.status.code(), Some(1), "{path}: {}{}", out(&refused), err(&refused));
        assert!(err(&refused).contains(message), "{path}: {}", err(&refused));
        match before {
            Some(before) => write(dir.path(), path, &before),
            None => fs::remove_file(dir.path().join(path)).unwrap(),
        }
    }
    assert_eq!(server.admin(Method::GET, "/admin/scripts/lib:more", None).await.status, 404);
}

/// Compares the folder with the server.
fn go_diff(server: &Instance, app: &str) -> Output {
    let url = format!("http://{}", server.address);
    server.run(&["diff", app, &url, "--second-key", &server.admin_key])
}
