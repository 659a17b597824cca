//! The binary's command line and configuration.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use crate::support::plc::Plc;
use crate::support::process::Process;

const ME: &str = "did:plc:mememememememememememeaa";
const YOU: &str = "did:plc:youyouyouyouyouyouyouyou";

fn run(dir: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_belvedere"))
        .args(arguments)
        .env_clear()
        .envs(environment.iter().copied())
        .current_dir(dir)
        .output()
        .expect("the binary runs")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn all_invalid_values_are_reported_together() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(
        dir.path(),
        &["serve"],
        &[
            ("PORT", "http"),
            ("DATABASE_URL", "mysql://user:hunter2@db/x"),
            ("SESSION_SECRET", "hunter2"),
            ("TOKEN_ENCRYPTION_KEY", "hunter2"),
            ("JETSTREAM_URL", "https://x.example"),
            ("DEFAULT_RATE_LIMIT_CAPACITY", "-5"),
            ("LOG_FORMAT", "xml"),
        ],
    );
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    for name in [
        "PORT",
        "DATABASE_URL",
        "SESSION_SECRET",
        "TOKEN_ENCRYPTION_KEY",
        "JETSTREAM_URL",
        "DEFAULT_RATE_LIMIT_CAPACITY",
        "LOG_FORMAT",
    ] {
        assert!(text.contains(name), "{name} is missing in {text}");
    }
    assert!(text.contains("7 problems") && !text.contains("hunter2"), "{text}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was written");
}

#[test]
fn a_dotenv_file_is_read_and_the_environment_overrides_it() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(".env"), "PORT=nonsense\nLOG_FORMAT=nonsense\n").unwrap();
    let output = run(dir.path(), &["migrate"], &[("PORT", "3000")]);
    let text = stderr(&output);
    assert!(text.contains("LOG_FORMAT") && !text.contains("PORT"), "{text}");
}

#[test]
fn migrate_applies_everything_once() {
    let dir = tempfile::tempdir().unwrap();
    let first = run(dir.path(), &["migrate"], &[]);
    assert!(first.status.success(), "{}", stderr(&first));
    assert!(dir.path().join("data/belvedere.db").is_file());
    let second = run(dir.path(), &["migrate"], &[]);
    assert!(String::from_utf8_lossy(&second.stdout).contains(": 0 migrations"), "{}", stderr(&second));
}

#[test]
fn create_key_prints_only_the_key() {
    let dir = tempfile::tempdir().unwrap();
    assert!(run(dir.path(), &["migrate"], &[]).status.success());
    let create = ["admin", "create-key", "--unchecked", "--did", ME];
    let output = run(dir.path(), &create, &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    let key = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(key.trim().len(), 36, "{key}");
    assert!(key.starts_with("bva_") && stderr(&output).contains("super user"));
    for arguments in [
        &["admin", "create-key", "--did", "me"][..],
        &["admin", "create-key", "--unchecked", "--did", YOU, "--permissions", "everything"],
        &["admin", "create-key", "--unchecked", "--did", YOU, "--name", " "],
        &["admin", "create-key"],
        &["fly"],
    ] {
        let output = run(dir.path(), arguments, &[]);
        assert!(!output.status.success() && output.stdout.is_empty(), "{arguments:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn create_key_checks_a_did_before_it_becomes_a_user() {
    let dir = tempfile::tempdir().unwrap();
    assert!(run(dir.path(), &["migrate"], &[]).status.success());
    let plc = Plc::start().await;
    let url = plc.url();
    let create = |did: &str, plc: &str, more: &[&str]| {
        let output =
            run(dir.path(), &[&["admin", "create-key", "--did", did], more].concat(), &[("PLC_URL", plc)]);
        (output.status.success(), stderr(&output))
    };
    // The value of the documentation, pasted.
    for more in [&[][..], &["--unchecked"]] {
        let (success, text) = create("did:plc:YOURS", &url, more);
        assert!(!success && text.contains("24 characters"), "{text}");
    }
    let (success, text) = create(ME, &url, &[]);
    assert!(!success && text.contains("does not exist") && text.contains("typo"), "{text}");
    let (success, text) = create(ME, "http://127.0.0.1:9", &[]);
    assert!(!success && text.contains("could not be checked") && text.contains("--unchecked"), "{text}");
    plc.host(ME, "https://pds.example");
    let (success, text) = create(ME, &url, &[]);
    assert!(success && text.contains("super user"), "{text}");
    // It is a user now, so that another key needs no network.
    let (success, text) = create(ME, "http://127.0.0.1:9", &[]);
    assert!(success && !text.contains("created"), "{text}");
}

#[test]
fn doctor_reports_problems_with_their_fixes() {
    let dir = tempfile::tempdir().unwrap();
    let nobody = "http://127.0.0.1:9";
    let output = run(
        dir.path(),
        &["doctor"],
        &[
            ("DATABASE_URL", "postgres://nobody@127.0.0.1:9/nothing"),
            ("PLC_URL", nobody),
            ("RELAY_URL", nobody),
            ("JETSTREAM_URL", "ws://127.0.0.1:9"),
        ],
    );
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for line in [
        "ok    configuration",
        "ok    data folder",
        "FAIL  database",
        "FAIL  PLC",
        "FAIL  relay",
        "FAIL  Jetstream",
        "Check DATABASE_URL",
        "Check PLC_URL",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
}

#[test]
fn doctor_in_an_empty_folder_names_the_next_step_and_creates_no_database() {
    let dir = tempfile::tempdir().unwrap();
    let nobody = "http://127.0.0.1:9";
    let doctor = || {
        let urls = [("PLC_URL", nobody), ("RELAY_URL", nobody), ("JETSTREAM_URL", "ws://127.0.0.1:9")];
        let output = run(dir.path(), &["doctor"], &urls);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let database = dir.path().join("data/belvedere.db");
    let text = doctor();
    assert!(!text.contains("no such table") && !text.contains("FAIL  database"), "{text}");
    assert!(text.contains("does not exist yet; the next start or belvedere migrate creates it"), "{text}");
    assert!(text.contains("not migrated yet"), "{text}");
    assert!(!database.exists(), "doctor made a database");

    // An empty file, which a migration leaves when it is killed at once.
    std::fs::write(&database, b"").unwrap();
    let text = doctor();
    assert!(text.contains("ok    database") && !text.contains("no such table"), "{text}");
    assert!(text.contains("ok    migrations: not migrated yet"), "{text}");

    assert!(run(dir.path(), &["migrate"], &[]).status.success());
    let text = doctor();
    assert!(text.contains("ok    migrations: all applied"), "{text}");
}

#[test]
fn systemd_is_notified_of_start_and_stop() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify");
    let systemd = UnixDatagram::bind(&path).unwrap();
    systemd.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    let received = || {
        let mut text = [0; 64];
        let length = systemd.recv(&mut text).expect("the server notifies systemd");
        String::from_utf8_lossy(&text[..length]).trim().to_owned()
    };
    let mut server = Process::new(&[("NOTIFY_SOCKET", path.to_str().unwrap())]);
    server.spawn();
    assert_eq!(received(), "READY=1", "{}", server.log());
    server.terminate();
    assert_eq!(received(), "STOPPING=1", "{}", server.log());
    assert_eq!(server.wait(), Some(0), "{}", server.log());
}
