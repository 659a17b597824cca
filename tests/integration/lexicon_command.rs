//! `belvedere lexicon`, against a running server.

use std::fs;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use belvedere_standins::vectors;
use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{LIST, NOTES, World};
use crate::support::instance::{Instance, OPERATOR, query_lexicon, record_lexicon};

fn write(dir: &Path, path: &str, text: impl AsRef<[u8]>) {
    let path = dir.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// The text of a lexicon as people write it, with a last line feed.
fn pretty(lexicon: &Value) -> String {
    format!("{lexicon:#}\n")
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs a command for a folder, against the server.
fn go(server: &Instance, verb: &str, dir: &Path, more: &[&str]) -> Output {
    let (folder, url) = (dir.display().to_string(), format!("http://{}", server.address));
    server.run(&[&["lexicon", verb, &folder, "--url", &url, "--key", &server.admin_key], more].concat())
}

async fn stored(server: &Instance, id: &str) -> Value {
    server.admin(Method::GET, &format!("/admin/lexicons/{id}"), None).await.body
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_are_reported_with_file_and_line() {
    let world = World::sqlite().await;
    let dir = tempfile::tempdir().unwrap();
    let check =
        |path: &str| world.server.run(&["lexicon", "check", &dir.path().join(path).display().to_string()]);
    let good = pretty(&query_lexicon("com.example.a"));
    let broken = pretty(&json!({ "lexicon": 1, "id": "com.example.b", "defs": { "main": { "type": 7 } } }));
    let line = broken.lines().position(|line| line.contains('7')).unwrap() + 1;
    for (path, text, message) in [
        ("com.example.b.json", broken.clone().into_bytes(), format!(":{line}: invalid lexicon: defs.main.type: ")),
        ("com/example/b.json", b"{\n\"lexicon\": 1,\n}".to_vec(), ":3: it is not JSON: ".to_owned()),
        ("com/example/c.json", b"{\n\n\"lexicon\": \"\xff\"}".to_vec(), ":3: it is not UTF-8".to_owned()),
        ("com/example/d.json", br#"{"lexicon":1,"id":"com.example.d","defs":{"a\u0000":{}}}"#.to_vec(), ": it holds a NUL".to_owned()),
        ("com/example/e.json", good.clone().into_bytes(), ": its id is com.example.a, so its path should end in com/example/a.json, or its name should be com.example.a.json".to_owned()),
    ] {
        write(dir.path(), path, text);
        let output = check(path);
        let start = format!("{}:", dir.path().join(path).display());
        assert_eq!(output.status.code(), Some(1), "{}", err(&output));
        assert!(err(&output).starts_with(&start) && err(&output).contains(&message), "{}", err(&output));
    }
    write(dir.path(), "com.example.a.json", &good);
    write(dir.path(), "package.json", "{}");
    write(dir.path(), "notes.txt", "{");
    write(dir.path(), "node_modules/com.example.x.json", "{");
    let output = check("");
    assert_eq!((output.status.code(), err(&output).lines().count()), (Some(1), 6), "{}", err(&output));
    assert!(err(&output).contains("package.json: skipped, it has no field \"lexicon\""), "{}", err(&output));
    let pushed = go(&world.server, "push", dir.path(), &[]);
    assert_eq!(pushed.status.code(), Some(1));
    assert!(err(&pushed).contains("5 problems in the folder, so nothing was pushed"), "{}", err(&pushed));
    assert_eq!(world.server.admin(Method::GET, "/admin/lexicons", None).await.body, json!([]));

    let mut odd = record_lexicon("com.example.odd");
    odd["defs"]["main"]["record"]["properties"]["text"]["format"] = json!("dattime");
    let line = pretty(&odd).lines().position(|line| line.contains("dattime")).unwrap() + 1;
    write(dir.path(), "com.example.odd.json", pretty(&odd));
    let output = check("com.example.odd.json");
    assert!(output.status.success() && out(&output).contains("1 lexicon checked"), "{}", err(&output));
    assert!(err(&output).contains(&format!("com.example.odd.json:{line}: warning: ")), "{}", err(&output));
    assert!(!check("nowhere").status.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_is_pushed_compared_and_pulled() {
    let world = World::sqlite().await;
    let server = &world.server;
    let dir = tempfile::tempdir().unwrap();
    let go = |verb: &str, more: &[&str]| go(server, verb, dir.path(), more);
    write(dir.path(), "com/example/note.json", pretty(&record_lexicon(NOTES)));
    write(dir.path(), "flat/com.example.listNotes.json", pretty(&query_lexicon(LIST)));

    let output = go("diff", &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(out(&output).contains(&format!("only here: {NOTES} (")), "{}", out(&output));
    let output = go("push", &["--dry-run"]);
    assert!(
        out(&output).contains(&format!("would be created: {NOTES}\n")),
        "{}{}",
        out(&output),
        err(&output)
    );
    assert!(out(&output).contains("1 backfill would start"), "{}", out(&output));
    assert_eq!(server.admin(Method::GET, "/admin/lexicons", None).await.body, json!([]));
    let output = go("push", &["--no-backfill"]);
    assert!(output.status.success(), "{}", err(&output));
    assert_eq!(out(&output), format!("created: {LIST}\ncreated: {NOTES}\n0 lexicons unchanged\n"));
    assert_eq!(server.admin(Method::GET, "/admin/backfill/status", None).await.body, json!([]));
    assert_eq!(out(&go("diff", &[])), "2 lexicons equal\n");
    assert_eq!(go("diff", &[]).status.code(), Some(0));

    // Settings that the folder does not have stay.
    server.upload(query_lexicon(LIST), Some(NOTES)).await;
    let mut described = query_lexicon(LIST);
    described["description"] = json!("Lists notes.");
    write(dir.path(), "flat/com.example.listNotes.json", pretty(&described));
    let output = go("diff", &[]);
    assert!(out(&output).contains("  /description: (absent) → \"Lists notes.\""), "{}", out(&output));
    let output = go("push", &[]);
    assert_eq!(out(&output), format!("updated: {LIST}\n1 lexicon unchanged\n"), "{}", err(&output));
    assert_eq!(stored(server, LIST).await["target_collection"], NOTES);

    // Pull: changed files are written where they are, new ones by the NSID, and a file that is only here is listed.
    let mut other = query_lexicon("com.example.other");
    other["description"] = json!("another");
    server.upload(other.clone(), None).await;
    described["description"] = json!("Lists all notes.");
    server.upload(described.clone(), None).await;
    write(dir.path(), "com/example/mine.json", pretty(&query_lexicon("com.example.mine")));
    write(dir.path(), "com/example/note.json", record_lexicon(NOTES).to_string());
    let output = go("pull", &[]);
    assert!(
        output.status.success() && out(&output).ends_with("1 lexicon unchanged\n"),
        "{}{}",
        out(&output),
        err(&output)
    );
    assert!(out(&output).contains("only here: ") && out(&output).contains("mine.json\n"), "{}", out(&output));
    let read = |path: &str| fs::read_to_string(dir.path().join(path)).unwrap();
    assert_eq!(read("com/example/note.json"), record_lexicon(NOTES).to_string(), "not touched");
    assert_eq!(read("com/example/other.json"), format!("{other}\n"));
    assert_eq!(serde_json::from_str::<Value>(&read("flat/com.example.listNotes.json")).unwrap(), described);

    fs::remove_file(dir.path().join("com/example/other.json")).unwrap();
    let output = go("push", &["--delete", "--dry-run"]);
    assert!(out(&output).contains("would be deleted: com.example.other\n"), "{}", out(&output));
    let output = go("push", &["--delete"]);
    assert!(
        out(&output).contains("created: com.example.mine\ndeleted: com.example.other\n"),
        "{}",
        out(&output)
    );
    assert_eq!(go("diff", &[]).status.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_and_refusals_are_named() {
    let world = World::sqlite().await;
    let server = &world.server;
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "a/com.example.note.json", pretty(&record_lexicon(NOTES)));
    write(dir.path(), "b/com/example/note.json", record_lexicon(NOTES).to_string());
    let output = go(server, "push", dir.path(), &["--no-backfill"]);
    assert_eq!(out(&output), format!("created: {NOTES}\n0 lexicons unchanged\n"), "{}", err(&output));
    let mut stricter = record_lexicon(NOTES);
    stricter["defs"]["main"]["record"]["required"] = json!(["text"]);
    write(dir.path(), "b/com/example/note.json", pretty(&stricter));
    let output = go(server, "push", dir.path(), &[]);
    let message = format!(
        "{} has the same id with another content",
        dir.path().join("a/com.example.note.json").display()
    );
    assert!(output.status.code() == Some(1) && err(&output).contains(&message), "{}", err(&output));

    fs::remove_dir_all(dir.path().join("a")).unwrap();
    let output = go(server, "push", dir.path(), &["--dry-run"]);
    assert!(
        err(&output).contains(&format!("{NOTES}: warning: it would break clients or records: ")),
        "{}",
        err(&output)
    );
    let reader = server.create_key(&["--did", OPERATOR, "--permissions", "lexicons:read"]);
    let url = format!("http://{}", server.address);
    let folder = dir.path().display().to_string();
    let output = server.run(&["lexicon", "push", &folder, "--url", &url, "--key", &reader]);
    assert!(
        err(&output).contains("nothing was pushed: the key may not do that: it needs lexicons:create"),
        "{}",
        err(&output)
    );
    assert_eq!(
        server.run(&["lexicon", "diff", &folder, "--url", &url, "--key", &reader]).status.code(),
        Some(1)
    );
    assert_eq!(stored(server, NOTES).await["revision"], 1);

    let output = server.run(&["lexicon", "diff", &folder, "--url", "http://127.0.0.1:9", "--key", &reader]);
    assert!(output.status.code() == Some(2) && err(&output).contains("does not answer"), "{}", err(&output));
    write(dir.path(), "b/com/example/broken.json", "{");
    assert_eq!(go(server, "diff", dir.path(), &[]).status.code(), Some(2));

    fs::remove_dir_all(dir.path().join("b")).unwrap();
    let output = go(server, "push", dir.path(), &["--delete"]);
    assert!(output.status.code() == Some(1) && err(&output).contains("has no lexicons"), "{}", err(&output));
    assert_eq!(stored(server, NOTES).await["revision"], 1);
}

/// The lexicons of public repositories; skipped without them.
mod the_lexicons_of_the_network_are_pushed_at_once {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn sqlite() {
        test(World::sqlite().await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn postgres() {
        test(World::postgres().await).await;
    }

    async fn test(world: World) {
        let Some(folder) = vectors::lexicon_folder() else { return };
        let world = world.with_notes().await;
        let server = &world.server;
        let before = world.stream.subscriptions().len();
        let started = Instant::now();
        let output = go(server, "push", &folder, &["--no-backfill"]);
        let elapsed = started.elapsed();
        assert!(output.status.success(), "{}", err(&output));
        let created = out(&output).lines().filter(|line| line.starts_with("created: ")).count();
        assert!(created > 900, "{created}");
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(world.stream.subscriptions().len(), before + 1, "one subscription for all");
        let again = Instant::now();
        let output = go(server, "push", &folder, &[]);
        assert_eq!(out(&output), format!("{created} lexicons unchanged\n"), "{}", err(&output));
        let again = again.elapsed();
        // Generous, since it is not optimised and all tests share two cores.
        assert!(elapsed < Duration::from_secs(30), "{elapsed:?}");
        report(&format!("{created} lexicons: pushed in {elapsed:?}, again in {again:?}"));
    }

    #[expect(clippy::print_stderr, reason = "a measurement")]
    fn report(text: &str) {
        eprintln!("{text}");
    }
}
