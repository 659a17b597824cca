//! `belvedere backup` beside a server that writes, and what a server finds in the copy.

use std::collections::BTreeSet;
use std::process::Output;

use belvedere_standins::database::sqlite_url;
use belvedere_standins::jetstream::FakeJetstream;
use belvedere_standins::postgres;
use http::Method;

use crate::fixtures::{ALICE, LIST, NOTES, World, push_notes, start_with_notes};
use crate::several_hosts::SEALING_KEY;
use crate::support::instance::{Instance, query_lexicon};
use crate::support::process::Process;

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const OWN: &str = "com.example.own";

/// A copy is made while records are written. It is the database at one moment: a server that starts on it in a new folder
/// has every row up to some event, and none after.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_a_busy_server_is_complete_and_starts_in_a_new_folder() {
    let (url, _directory) = sqlite_url();
    let (stream, key) = (FakeJetstream::start().await, [("TOKEN_ENCRYPTION_KEY", SEALING_KEY)]);
    let server = start_with_notes(&url, &stream, &key).await;
    let folder = tempfile::tempdir().unwrap();
    server.upload(query_lexicon(OWN), None).await;
    server.bind(OWN, "function handle() db.raw('CREATE TABLE script_seen (n INTEGER)') return {} end").await;
    assert_eq!(server.xrpc(OWN).await.status, 200);
    push_notes(&stream, 0..1);
    server.eventually("the first note", async |server: &Instance| server.records().await == 1).await;
    push_notes(&stream, 1..400);
    let copy = folder.path().join("copy.db");
    let output = server.run(&["backup", copy.to_str().unwrap()]);
    assert!(output.status.success(), "{}", err(&output));
    assert!(err(&output).contains("TOKEN_ENCRYPTION_KEY"), "{}", err(&output));
    push_notes(&stream, 400..600);
    server.eventually("everything", async |server: &Instance| server.records().await == 600).await;

    // Nothing else is left in the folder, and what is there is for the operator only.
    let names = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name());
    let names: BTreeSet<_> = names.map(|name| name.into_string().unwrap()).collect();
    assert_eq!(names, BTreeSet::from(["copy.db".to_owned(), "copy.scripts.db".to_owned()]));
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&copy).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    // An existing file is not overwritten.
    let again = server.run(&["backup", copy.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(1));
    assert!(err(&again).contains("exists already"), "{}", err(&again));

    let url = format!("sqlite://{}", copy.display());
    let nothing = FakeJetstream::start().await;
    let mut restored = Instance::start_unclaimed(&url, &nothing.url(), &key).await;
    restored.admin_key.clone_from(&server.admin_key);
    restored.client_key.clone_from(&server.client_key);
    let lexicons = async |server: &Instance| server.admin(Method::GET, "/admin/lexicons", None).await.body;
    assert_eq!(lexicons(&restored).await, lexicons(&server).await);
    // The events of a repo are applied in order: the rows are those of a prefix of them, as they are in the source.
    let records = restored.records().await;
    assert!((1..=400).contains(&records), "{records}");
    for n in [0, 1, 100, 398, 399] {
        let path = format!("{LIST}?uri=at://{ALICE}/{NOTES}/k{n:04}");
        let (there, original) = (restored.xrpc(&path).await, server.xrpc(&path).await);
        assert_eq!(there.status == 200, n < records, "{n} of {records}");
        if there.status == 200 {
            assert_eq!(there.body, original.body);
        }
    }
    // The scripts' own table came along: it can't be created again.
    assert_eq!(restored.xrpc(OWN).await.status, 500);

    // Without the key of the source the secrets in the copy can't be opened, and the server says so.
    assert_eq!(restored.stop(), Some(0));
    let other = Process::new(&[("DATABASE_URL", &url), ("JETSTREAM_URL", "none")]);
    let output = other.run(&["serve"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("TOKEN_ENCRYPTION_KEY"), "{}", err(&output));
}

/// A file that was cut off, by a full disk or a broken transfer, is not taken for a database.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_truncated_copy_is_recognised() {
    let world = World::sqlite().await.with_notes().await;
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.db");
    assert!(world.server.run(&["backup", copy.to_str().unwrap()]).status.success());
    let whole = std::fs::metadata(&copy).unwrap().len();
    for length in [whole - 4096, whole / 2, whole - 1, 700, 50] {
        let cut = folder.path().join(format!("cut{length}.db"));
        std::fs::copy(&copy, &cut).unwrap();
        std::fs::File::options().write(true).open(&cut).unwrap().set_len(length).unwrap();
        let url = format!("sqlite://{}", cut.display());
        let process = Process::new(&[("DATABASE_URL", &url), ("JETSTREAM_URL", "none")]);
        for command in ["serve", "migrate"] {
            let output = process.run(&[command]);
            assert_eq!(output.status.code(), Some(1), "{length}: {command}");
            let text = err(&output);
            assert!(text.contains("damaged or truncated") && text.contains("backup"), "{length}: {text}");
        }
    }
}

/// A backup that was killed leaves the file that it wrote and SQLite's journal of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_interrupted_backup_left_is_not_applied_to_the_next() {
    let world = World::sqlite().await.with_notes().await;
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.db");
    // Says that the file had one page of 4096 bytes before, so SQLite would cut it.
    let mut journal = vec![0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    for number in [0_u32, 7, 1, 512, 4096] {
        journal.extend(number.to_be_bytes());
    }
    journal.resize(1024, 0);
    std::fs::write(folder.path().join("copy.db.partial-journal"), journal).unwrap();
    std::fs::write(folder.path().join("copy.db.partial"), b"half a page").unwrap();
    let output = world.server.run(&["backup", copy.to_str().unwrap()]);
    assert!(output.status.success(), "{}", err(&output));
    let names = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["copy.db"]);
    let url = format!("sqlite://{}", copy.display());
    let process = Process::new(&[("DATABASE_URL", &url), ("JETSTREAM_URL", "none")]);
    assert!(process.run(&["migrate"]).status.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_needs_a_database_of_sqlite() {
    let url = postgres::create_database().await;
    let process = Process::new(&[("DATABASE_URL", &url)]);
    let file = process.directory().join("it's a copy");
    let output = process.run(&["backup", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "nothing was backed up");
    let command = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        command.starts_with("pg_dump --format=custom --file='") && command.contains("it'\\''s a copy"),
        "{command}"
    );
    assert!(!file.exists() && err(&output).contains("no backup was made"), "{}", err(&output));
    postgres::drop_database(&url);

    let nowhere = Process::new(&[("DATABASE_URL", "sqlite://missing.db")]);
    let output = nowhere.run(&["backup", "copy.db"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("there is no database"), "{}", err(&output));
    std::fs::write(nowhere.directory().join("missing.db"), b"").unwrap();
    let output = nowhere.run(&["backup", "copy.db"]);
    assert!(err(&output).contains("not the database of an instance"), "{}", err(&output));
}
