//! Commands beside a server use its database, or say which one to name; they never create another. A SQLite database has
//! one server.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use belvedere_standins::http_client;
use belvedere_standins::jetstream::{FakeJetstream, eventually};
use belvedere_standins::{database, postgres};
use http::Method;
use serde_json::Value;

use crate::fixtures::World;
use crate::several_hosts::SEALING_KEY;
use crate::support::plc::Plc;
use crate::support::process::Process;

/// Runs `belvedere ARGUMENTS` in a folder with no other variables than these.
fn run(folder: &Path, environment: &[(&str, &str)], arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_belvedere"));
    command.args(arguments).env_clear().envs(environment.iter().copied()).current_dir(folder);
    command.stdin(Stdio::null()).output().expect("the binary runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().count() == 0
}

const OPERATOR: &str = "did:plc:operatoroperatoroperator";
const CREATE_KEY: [&str; 5] = ["admin", "create-key", "--unchecked", "--did", OPERATOR];

/// Waits until a new server responds.
async fn wait_for(server: &mut Process) {
    eventually("the server responds", async || {
        assert!(server.ended().is_none(), "{}", server.log());
        let answer = http_client::send(server.address, Method::GET, "/health", &[], None).await;
        answer.is_ok_and(|(status, ..)| status == 200)
    })
    .await;
}

/// Starts a server that calls no other one. `more` has the variables of the test.
async fn start(more: &[(&'static str, &str)]) -> Process {
    let nobody = "http://127.0.0.1:9";
    let all = [&[("JETSTREAM_URL", "none"), ("PLC_URL", nobody), ("RELAY_URL", nobody)], more].concat();
    let mut server = Process::new(&all);
    server.spawn();
    wait_for(&mut server).await;
    server
}

/// The command with which a new server's first key is created.
async fn printed_command(server: &Process) -> String {
    let mut command = None;
    eventually("the command is printed", async || {
        let log = server.log();
        let found = log.lines().find_map(|line| line.trim().strip_prefix("KEY=$(")?.strip_suffix(')'));
        command = found.map(str::to_owned);
        command.is_some()
    })
    .await;
    command.unwrap()
}

async fn status_with(server: &Process, key: &str) -> u16 {
    let key = format!("Bearer {key}");
    let headers = [("authorization", key.as_str())];
    let sent = http_client::send(server.address, Method::GET, "/admin/lexicons", &headers, None).await;
    sent.unwrap().0.as_u16()
}

fn instance_file(data: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(data.join("instance.json")).unwrap()).unwrap()
}

#[test]
fn commands_create_no_database() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), &[], &CREATE_KEY);
    let text = stderr(&output);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), ""), "{text}");
    let wanted = format!("{}/data/belvedere.db", std::fs::canonicalize(folder.path()).unwrap().display());
    assert!(text.contains(&wanted) && text.contains("DATABASE_URL"), "{text}");
    assert!(!text.contains("only once"), "{text}");
    assert!(is_empty(folder.path()), "something was created");
    // An empty file is no instance.
    std::fs::create_dir(folder.path().join("data")).unwrap();
    std::fs::write(folder.path().join("data/belvedere.db"), b"").unwrap();
    let output = run(folder.path(), &[], &CREATE_KEY);
    assert!(!output.status.success() && stderr(&output).contains("not an instance's yet"), "{output:?}");
}

#[tokio::test]
async fn an_empty_postgresql_database_is_not_migrated_by_a_command() {
    let url = postgres::create_new_database().await;
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), &[("DATABASE_URL", &url)], &CREATE_KEY);
    assert!(!output.status.success() && stderr(&output).contains("not an instance's yet"), "{output:?}");
    assert!(run(folder.path(), &[("DATABASE_URL", &url)], &["migrate"]).status.success());
    assert!(is_empty(folder.path()), "migrate made a secret that the server does not have");
    assert!(run(folder.path(), &[("DATABASE_URL", &url)], &CREATE_KEY).status.success());
    postgres::drop_database(&url);
}

/// The README's story: a key from a second terminal, in another folder, with the command that the server prints.
async fn a_key_of_the_printed_command_works(database: &str) {
    let plc = Plc::start().await;
    plc.host(OPERATOR, "https://pds.example");
    let server = start(&[("DATABASE_URL", database), ("PLC_URL", &plc.url())]).await;
    let command = printed_command(&server).await.replace("YOUR_DID", OPERATOR);
    let elsewhere = tempfile::tempdir().unwrap();
    let output = Command::new("sh")
        .args(["-c", &command])
        .env_clear()
        .current_dir(elsewhere.path())
        .output()
        .expect("the shell runs");
    assert!(output.status.success(), "{command}: {}", stderr(&output));
    assert_eq!(status_with(&server, &stdout(&output)).await, 200);
    assert!(is_empty(elsewhere.path()), "the command left files");

    // In the server's folder no variable is needed: instance.json names the database.
    let data = server.directory().join("data");
    let instance = instance_file(&data);
    assert_eq!(instance["pid"], server.pid());
    assert_eq!(instance["public_url"], format!("http://{}", server.address));
    let output = run(server.directory(), &[], &CREATE_KEY);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(status_with(&server, &stdout(&output)).await, 200);
    let doctor = run(server.directory(), &[("PLC_URL", "http://127.0.0.1:9")], &["doctor"]);
    let doctor = stdout(&doctor);
    assert!(doctor.contains("ok    migrations: all applied"), "{doctor}");
    let on_postgres =
        ["ok    scripts' SQL: each statement is checked and runs under", "ok    connections: 32 of"];
    let is_postgres = database.starts_with("postgres");
    assert!(on_postgres.iter().all(|line| doctor.contains(line) == is_postgres), "{doctor}");
    // So that the database can be removed.
    drop(server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_of_the_printed_command_works_on_sqlite() {
    let (url, _directory) = database::sqlite_url();
    a_key_of_the_printed_command_works(&url).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_of_the_printed_command_works_on_postgres() {
    let url = postgres::create_new_database().await;
    a_key_of_the_printed_command_works(&url).await;
    postgres::drop_database(&url);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_is_neither_stored_nor_printed_and_has_to_be_given() {
    let url = postgres::create_new_database().await;
    // The test server accepts any password.
    let url = url.replacen("belvedere@", "belvedere:hunter2@", 1);
    assert!(url.contains("hunter2"));
    let server = start(&[("DATABASE_URL", &url)]).await;
    let data = server.directory().join("data");
    let text = std::fs::read_to_string(data.join("instance.json")).unwrap();
    assert!(!text.contains("hunter2") && instance_file(&data)["database"]["kind"] == "postgres", "{text}");
    assert!(printed_command(&server).await.contains("belvedere:PASSWORD@"));
    assert!(!server.log().contains("hunter2"), "{}", server.log());
    let output = run(server.directory(), &[], &CREATE_KEY);
    let text = stderr(&output);
    assert!(!output.status.success() && text.contains("runs on postgres://belvedere@"), "{text}");
    assert!(!data.join("belvedere.db").exists());
    let output = run(server.directory(), &[("DATABASE_URL", &url)], &CREATE_KEY);
    assert_eq!(status_with(&server, &stdout(&output)).await, 200, "{}", stderr(&output));
    drop(server);
    postgres::drop_database(&url);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_server_on_a_sqlite_file_does_not_start() {
    let (url, _directory) = database::sqlite_url();
    let environment =
        [("DATABASE_URL", url.as_str()), ("TOKEN_ENCRYPTION_KEY", SEALING_KEY), ("JETSTREAM_URL", "none")];
    let mut first = start(&environment).await;
    let mut second = Process::new(&environment);
    second.spawn();
    assert_eq!(second.wait(), Some(1), "{}", second.log());
    let log = second.log();
    let process = format!("another server (process {})", first.pid());
    assert!(log.contains(&process) && log.contains("DATA_DIR or DATABASE_URL"), "{log}");
    // The lock ends with the process, however it ends.
    first.kill();
    second.spawn();
    wait_for(&mut second).await;
}

/// Each warning is something that the operator should act on. A new instance has nothing of that kind.
async fn a_first_start_logs_no_warnings(database: &str, doctor_lines: &[&str]) {
    let stream = FakeJetstream::start().await;
    let folder = tempfile::tempdir().unwrap();
    // Its own folder, so that it also compiles the script guest.
    let data = folder.path().join("new/data").display().to_string();
    let (stream, nobody) = (stream.url(), "http://127.0.0.1:9");
    let environment = [
        ("DATABASE_URL", database),
        ("DATA_DIR", &data),
        ("JETSTREAM_URL", &stream),
        ("PLC_URL", nobody),
        ("RELAY_URL", nobody),
    ];
    let environment: Vec<_> = environment.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    let mut server = Process::new(&environment);
    let before = server.run(&["doctor"]);
    for line in doctor_lines {
        assert!(stdout(&before).contains(line), "{line} is missing in\n{}", stdout(&before));
    }
    std::fs::remove_dir_all(folder.path().join("new")).unwrap();
    server.spawn();
    wait_for(&mut server).await;
    let key = server.create_key(&CREATE_KEY[3..]);
    assert_eq!(status_with(&server, &key).await, 200);
    let after = server.run(&["doctor"]);
    assert!(stdout(&after).contains("ok    secrets: in the data folder"), "{}", stdout(&after));
    server.terminate();
    assert_eq!(server.wait(), Some(0), "{}", server.log());
    let log = server.log();
    let alarming: Vec<&str> =
        log.lines().filter(|line| line.contains(" WARN ") || line.contains("ERROR")).collect();
    assert!(alarming.is_empty(), "{alarming:#?}");
    assert!(log.contains(" INFO "), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_start_on_sqlite_logs_no_warnings() {
    let expected = [
        "new/data does not exist yet; the first start creates it",
        "ok    secrets: none yet; the first start generates them in the data folder",
        "new/data/belvedere.db does not exist yet; the next start or belvedere migrate creates it",
        "ok    migrations: not migrated yet",
        "ok    script engine: ready",
    ];
    a_first_start_logs_no_warnings("", &expected).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_start_on_postgres_logs_no_warnings() {
    let url = postgres::create_new_database().await;
    let expected =
        ["ok    database: postgres://", "ok    migrations: not migrated yet", "ok    connections: 32 of"];
    a_first_start_logs_no_warnings(&url, &expected).await;
    postgres::drop_database(&url);
}

/// A scripts' role with another password would lock the running server out of `db.raw`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_from_another_folder_leave_the_role_of_scripts_sql_alone() {
    let world = World::postgres().await.with_notes().await;
    let url = world.database_url();
    let raw = "function handle() return { n = db.raw('SELECT count(*) AS n FROM records', {})[1].n } end";
    world.server.upload(crate::support::instance::query_lexicon("com.example.raw"), None).await;
    world.server.bind("com.example.raw", raw).await;
    let elsewhere = tempfile::tempdir().unwrap();
    for arguments in [&CREATE_KEY[..], &["migrate"], &["doctor"]] {
        run(elsewhere.path(), &[("DATABASE_URL", url), ("JETSTREAM_URL", "none")], arguments);
    }
    world
        .execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename LIKE '%_scripts'")
        .await;
    let answer = world.server.xrpc("com.example.raw").await;
    assert_eq!(answer.status, 200, "{}", answer.text);
}
