//! `belvedere script`, against a running server.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use belvedere_standins::upstream::{Upstream, respond};
use http::Method;
use serde_json::json;

use crate::fixtures::World;
use crate::support::instance::query_lexicon;

const GOOD: &str = "function handle() return 1 end\n";

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_are_reported_with_file_and_line() {
    let world = World::sqlite().await;
    let dir = tempfile::tempdir().unwrap();
    for (path, source, message) in [
        ("loose.lua", "function handle()\n  return 1 +\nend", ":3: unexpected symbol near 'end'"),
        (
            "xrpc.query/com.example.a.lua",
            "local x = nil\nx.y = 1\nfunction handle() end",
            ":2: attempt to index a nil value",
        ),
        ("xrpc.query/com.example.b.lua", "x = 1", "the script defines no function handle()"),
        (
            "record.index/com.example.c.lua",
            "\ndb.get('x')\nfunction handle() end",
            ":2: db.get can't be used while",
        ),
    ] {
        write(dir.path(), path, source);
        let path = dir.path().join(path).display().to_string();
        let output = world.server.run(&["script", "check", &path]);
        assert_eq!(output.status.code(), Some(1), "{}", err(&output));
        let text = err(&output);
        assert!(text.starts_with(&path) && text.contains(message), "{text}");
    }
    write(dir.path(), "fine.lua", GOOD);
    let output = world.server.run(&["script", "check", &dir.path().join("fine.lua").display().to_string()]);
    assert!(output.status.success() && out(&output).contains("1 script loaded"), "{}", err(&output));
    let misspelt = "function handle()\n  return tostirng(1)\nend";
    write(dir.path(), "xrpc.query/com.example.d.lua", misspelt);
    let path = dir.path().join("xrpc.query/com.example.d.lua").display().to_string();
    let output = world.server.run(&["script", "check", &path]);
    let warning =
        format!("{path}:2: warning: nothing defines tostirng, so it is nil: did you mean tostring?");
    assert_eq!((output.status.success(), err(&output).trim_end()), (true, warning.as_str()));
    // A folder: all scripts in it, and the names of the files that are not understood.
    let folder = dir.path().display().to_string();
    let output = world.server.run(&["script", "check", &folder]);
    assert_eq!((output.status.code(), err(&output).lines().count()), (Some(1), 6), "{}", err(&output));
    assert!(
        err(&output).contains(&format!("{folder}/fine.lua: it is not in a folder named like")),
        "{}",
        err(&output)
    );
    assert!(!world.server.run(&["script", "check", "/nowhere.lua"]).status.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_is_pushed_and_pulled() {
    let world = World::sqlite().await;
    let (server, url) = (&world.server, format!("http://{}", world.server.address));
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().display().to_string();
    let go = |verb: &str, folder: &str, more: &[&str]| {
        server.run(&[&["script", verb, folder, "--url", &url, "--key", &server.admin_key], more].concat())
    };
    let stored = async |id: &str| {
        server.admin(Method::GET, &format!("/admin/scripts/{id}"), None).await.body["body"]
            .as_str()
            .map(str::to_owned)
    };
    write(dir.path(), "xrpc.query/com.example.one.lua", GOOD);
    write(dir.path(), "job.run/nightly.lua", GOOD);
    let described = json!({ "id": "record.index:com.example.old", "body": GOOD, "description": "old" });
    assert_eq!(server.admin(Method::POST, "/admin/scripts", Some(&described)).await.status, 201);

    let output = go("push", &folder, &["--dry-run"]);
    assert!(out(&output).contains("would be created: job.run:nightly"), "{}{}", out(&output), err(&output));
    assert_eq!(stored("job.run:nightly").await, None);

    let output = go("push", &folder, &[]);
    assert!(
        out(&output).contains("created: xrpc.query:com.example.one")
            && out(&output).contains("0 scripts unchanged")
    );
    assert_eq!(stored("xrpc.query:com.example.one").await.as_deref(), Some(GOOD));

    // Pull: scripts that only the server has are written, unchanged files are not touched.
    let output = go("pull", &folder, &[]);
    assert!(
        out(&output).contains("record.index/com.example.old.lua")
            && out(&output).contains("2 scripts unchanged")
    );
    assert_eq!(fs::read_to_string(dir.path().join("record.index/com.example.old.lua")).unwrap(), GOOD);

    // If one file is invalid, nothing is sent.
    let changed = "function handle() return 2 end\n";
    write(dir.path(), "record.index/com.example.old.lua", changed);
    write(dir.path(), "xrpc.query/com.example.one.lua", "function handle(");
    let output = go("push", &folder, &[]);
    assert!(
        output.status.code() == Some(1) && err(&output).contains("nothing was pushed"),
        "{}",
        err(&output)
    );
    assert_eq!(stored("record.index:com.example.old").await.as_deref(), Some(GOOD));

    fs::remove_file(dir.path().join("xrpc.query/com.example.one.lua")).unwrap();
    let output = go("push", &folder, &["--delete"]);
    assert!(output.status.success(), "{}", err(&output));
    assert!(out(&output).contains("updated: record.index:com.example.old"), "{}", out(&output));
    assert!(out(&output).contains("deleted: xrpc.query:com.example.one"), "{}", out(&output));
    assert_eq!(stored("xrpc.query:com.example.one").await, None);
    let old = server.admin(Method::GET, "/admin/scripts/record.index:com.example.old", None).await.body;
    assert_eq!((&old["body"], &old["description"]), (&json!(changed), &json!("old")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn libraries_go_with_the_scripts_that_require_them() {
    let world = World::sqlite().await;
    let (server, url) = (&world.server, format!("http://{}", world.server.address));
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().display().to_string();
    let push = |more: &[&str]| {
        server.run(&[&["script", "push", &folder, "--url", &url, "--key", &server.admin_key], more].concat())
    };
    write(dir.path(), "job.run/nightly.lua", "require('b')\nfunction handle() end\n");
    write(dir.path(), "lib/a.lua", "return 1\n");
    write(dir.path(), "lib/b.lua", "return require('a')\n");
    let job = dir.path().join("job.run/nightly.lua").display().to_string();
    let output = server.run(&["script", "check", &job]);
    assert!(output.status.success(), "{}", err(&output));
    let output = push(&[]);
    let created = "created: job.run:nightly\ncreated: lib:a\ncreated: lib:b\n";
    assert!(out(&output).starts_with(created), "{}{}", out(&output), err(&output));

    fs::remove_file(dir.path().join("lib/a.lua")).unwrap();
    let output = push(&["--delete"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("lib/b.lua:1: there is no library \"a\""), "{}", err(&output));
    fs::remove_file(dir.path().join("lib/b.lua")).unwrap();
    fs::remove_file(&job).unwrap();
    let output = push(&["--delete"]);
    let deleted = "deleted: job.run:nightly\ndeleted: lib:a\ndeleted: lib:b\n";
    assert!(out(&output).starts_with(deleted), "{}{}", out(&output), err(&output));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_names_the_fix() {
    let world = World::sqlite().await;
    let (server, url) = (&world.server, format!("http://{}", world.server.address));
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "xrpc.query/com.example.one.lua", GOOD);
    let folder = dir.path().display().to_string();
    let reader =
        server.create_key(&["--did", crate::support::instance::OPERATOR, "--permissions", "scripts:read"]);
    for (url, key, message) in [
        (url.as_str(), "bva_00000000000000000000000000000000", "does not know this key"),
        (&url, &reader, "it needs scripts:manage"),
        ("http://127.0.0.1:9", &server.admin_key, "does not answer"),
        ("ftp://x", &server.admin_key, "is not the address of a server"),
    ] {
        let output = server.run(&["script", "push", &folder, "--url", url, "--key", key]);
        assert!(!output.status.success() && err(&output).contains(message), "{}", err(&output));
        assert!(!err(&output).contains(&server.admin_key), "the key is not printed");
    }
    write(dir.path(), "xrpc.query/nonsense.lua", GOOD);
    let output = server.run(&["script", "push", &folder, "--url", &url, "--key", &server.admin_key]);
    let message = err(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("nonsense.lua: its name is not a trigger of this kind"), "{message}");
    assert!(message.contains("bound to nothing") && message.contains("nothing was pushed"), "{message}");
    let check = server.run(&["script", "check", &folder]);
    assert_eq!(
        (check.status.code(), err(&check).contains("nonsense.lua")),
        (Some(1), true),
        "{}",
        err(&check)
    );
    let stored = server.admin(Method::GET, "/admin/scripts/xrpc.query:com.example.one", None).await;
    assert_eq!(stored.status, 404, "no file was pushed: {}", stored.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn annotations_have_the_functions_of_the_servers_plugins() {
    let world = World::sqlite().await;
    let has_plugins = Arc::new(AtomicBool::new(true));
    let answers = Arc::clone(&has_plugins);
    let remote = Upstream::start(move |request| match request.path_and_query.as_str() {
        "/admin/scripts" => respond(200, "application/json", "[]"),
        "/admin/plugins" if answers.load(Ordering::SeqCst) => {
            let function = json!({ "name": "render", "params": ["text: string"], "help": "HTML of a text." });
            let markdown = json!({ "id": "markdown", "version": "1.0.0", "functions": [function] });
            let steam = json!({ "id": "steam", "version": "1.0.0", "functions": [] });
            let listed = json!({ "encryption_configured": true, "plugins": [steam, markdown] });
            respond(200, "application/json", listed.to_string())
        }
        _ => respond(403, "application/json", "{\"error\":\"Forbidden\"}"),
    })
    .await;
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().display().to_string();
    let go = |verb: &str, more: &[&str]| world.server.run(&[&["script", verb, &folder], more].concat());
    let url = remote.url();
    let server = ["--url", &url, "--key", "bva_00000000000000000000000000000000"];
    let annotations = dir.path().join("library/belvedere.d.lua");
    let described = "---HTML of a text.\n---@param text string\n---@return any\n\
                     plugin.markdown.render = function(text) end\n";

    assert!(go("pull", &server).status.success());
    assert!(!annotations.exists(), "the folder has none");
    assert!(go("init", &[]).status.success());
    let built_in = fs::read_to_string(&annotations).unwrap();
    assert!(!built_in.contains("plugin.markdown") && remote.requests().len() == 1);

    let pulled = go("pull", &server);
    assert!(pulled.status.success(), "{}", err(&pulled));
    let with_plugins = fs::read_to_string(&annotations).unwrap();
    assert!(with_plugins.starts_with(&built_in) && with_plugins.ends_with(described), "{with_plugins}");

    // A key without the permission, and a server of an earlier version.
    has_plugins.store(false, Ordering::SeqCst);
    for verb in ["pull", "init"] {
        let output = go(verb, &server);
        assert!(output.status.success() && out(&output).contains("kept: "), "{verb}: {}", err(&output));
        assert!(err(&output).contains("the key may not do that: it needs plugins:read"), "{}", err(&output));
        assert_eq!(fs::read_to_string(&annotations).unwrap(), with_plugins);
    }
    fs::remove_file(&annotations).unwrap();
    assert!(go("init", &server).status.success());
    assert_eq!(fs::read_to_string(&annotations).unwrap(), built_in);

    has_plugins.store(true, Ordering::SeqCst);
    assert!(go("init", &server).status.success());
    assert_eq!(fs::read_to_string(&annotations).unwrap(), with_plugins);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_earlier_body_is_stored_again() {
    let world = World::sqlite().await;
    let server = &world.server;
    let (url, key) = (format!("http://{}", server.address), server.admin_key.clone());
    let id = "job.run:nightly";
    let rollback = |more: &[&str]| {
        let command = ["script", "rollback", id, "--url", &url, "--key", &key];
        server.run(&[&command[..], more].concat())
    };
    let none = rollback(&[]);
    assert!(!none.status.success() && err(&none).contains("script not found"), "{}", err(&none));

    let path = "/admin/scripts/job.run%3Anightly";
    let stored = async || server.admin(Method::GET, path, None).await.body["body"].clone();
    let body = |n: u32| format!("function handle() return {n} end");
    for n in 1..=3 {
        let script = json!({ "id": id, "body": body(n), "description": format!("the body {n}") });
        assert!(server.admin(Method::POST, "/admin/scripts", Some(&script)).await.status.is_success());
        if n == 1 {
            let single = rollback(&[]);
            assert!(err(&single).contains("has had one body only"), "{}", err(&single));
        }
    }
    let back = rollback(&[]);
    assert_eq!(out(&back).trim_end(), "job.run:nightly: stored revision 2 again", "{}", err(&back));
    assert_eq!(stored().await, body(2));
    assert!(rollback(&["--to", "1"]).status.success());
    assert_eq!(stored().await, body(1));
    assert_eq!(server.admin(Method::GET, path, None).await.body["description"], "the body 1");
    let missing = rollback(&["--to", "99"]);
    assert!(!missing.status.success() && stored().await == body(1), "{}", err(&missing));

    assert!(server.admin(Method::DELETE, path, None).await.status.is_success());
    let restored = rollback(&[]);
    assert!(restored.status.success(), "{}", err(&restored));
    assert_eq!(stored().await, body(1));
}

/// A command that runs until it is dropped, and the lines that it prints.
struct Tail {
    process: std::process::Child,
    lines: tokio::sync::mpsc::UnboundedReceiver<String>,
}

impl Tail {
    fn start(arguments: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_belvedere"))
            .args(arguments)
            .env_clear()
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = process.stdout.take().unwrap();
        let (sender, lines) = tokio::sync::mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self { process, lines }
    }

    async fn line(&mut self) -> String {
        let line = tokio::time::timeout(Duration::from_secs(30), self.lines.recv());
        line.await.expect("a line in time").expect("the command runs")
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_of_scripts_is_followed_over_a_restart() {
    let mut world = World::sqlite().await;
    let url = format!("http://{}", world.server.address);
    let key = world.server.admin_key.clone();
    for method in ["com.example.loud", "com.example.quiet"] {
        world.server.upload(query_lexicon(method), None).await;
        let source = "function handle()
  log('n is ' .. tostring(params.n))
  if tostring(params.n) == '2' then error('it broke') end
  return {}
end";
        world.server.bind(method, source).await;
    }
    let call = async |world: &World, method: &str, n: u32| {
        world.server.xrpc(&format!("{method}?n={n}")).await;
    };
    call(&world, "com.example.quiet", 0).await;
    call(&world, "com.example.loud", 1).await;
    let since = ["--since", "2020-01-01T00:00:00Z", "--trigger", "*loud"];
    let mut tail = Tail::start(&[&["script", "tail", "--url", &url, "--key", &key], &since[..]].concat());
    let line = tail.line().await;
    assert!(line.ends_with(" info  xrpc.query:com.example.loud: n is 1"), "{line}");
    call(&world, "com.example.quiet", 2).await;
    call(&world, "com.example.loud", 2).await;
    let (logged, failed) = (tail.line().await, tail.line().await);
    assert!(logged.ends_with("n is 2"), "{logged}");
    assert!(failed.ends_with(" error xrpc.query:com.example.loud:3: it broke"), "{failed}");
    world.server.kill();
    world.server.start_again().await;
    call(&world, "com.example.loud", 3).await;
    let line = tail.line().await;
    assert!(line.ends_with("n is 3"), "{line}");
    let refused = world.server.run(&["script", "tail", "--url", &url, "--key", "wrong"]);
    assert!(
        !refused.status.success() && err(&refused).contains("does not know this key"),
        "{}",
        err(&refused)
    );
}
