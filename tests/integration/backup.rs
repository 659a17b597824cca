//! `belvedere backup` beside a server that writes, and what a server finds in the copy.

use std::collections::BTreeSet;
use std::ops::Range;
use std::process::Output;

use belvedere_standins::jetstream::{FakeJetstream, Frame, Place};
use belvedere_standins::postgres;
use http::Method;
use serde_json::json;

use crate::fixtures::{ALICE, LIST, NOTES, World};
use crate::support::instance::{Instance, query_lexicon};
use crate::support::process::Process;

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const OWN: &str = "com.example.own";

/// Sends notes without waiting until they are indexed.
fn push_notes(world: &mut World, numbers: Range<usize>) {
    for n in numbers {
        let rkey = format!("k{n:04}");
        world.push(|at, rev| {
            let place = Place { did: ALICE, collection: NOTES, rkey: &rkey, rev };
            Frame::create(at, place, &json!({ "$type": NOTES, "n": n }))
        });
    }
}

/// A copy is made while records are written. It is the database at one moment: a server that starts on it in a new folder
/// has every row up to some event, and none after.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_a_busy_server_is_complete_and_starts_in_a_new_folder() {
    let mut world = World::sqlite().await.with_notes().await;
    let folder = tempfile::tempdir().unwrap();
    world.note(ALICE, "first", json!({})).await;
    world.server.upload(query_lexicon(OWN), None).await;
    let script = "function handle() db.raw('CREATE TABLE script_seen (n INTEGER)') return {} end";
    world.server.bind(OWN, script).await;
    assert_eq!(world.server.xrpc(OWN).await.status, 200);
    push_notes(&mut world, 0..400);
    let copy = folder.path().join("copy.db");
    let output = world.server.run(&["backup", copy.to_str().unwrap()]);
    assert!(output.status.success(), "{}", err(&output));
    assert!(err(&output).contains("TOKEN_ENCRYPTION_KEY"), "{}", err(&output));
    push_notes(&mut world, 400..600);
    world.server.eventually("everything", async |server: &Instance| server.records().await == 601).await;

    // Nothing else is left in the folder, and what is there is for the operator only.
    let names = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name());
    let names: BTreeSet<_> = names.map(|name| name.into_string().unwrap()).collect();
    assert_eq!(names, BTreeSet::from(["copy.db".to_owned(), "copy.scripts.db".to_owned()]));
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&copy).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    // An existing file is not overwritten.
    let again = world.server.run(&["backup", copy.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(1));
    assert!(err(&again).contains("exists already"), "{}", err(&again));

    let url = format!("sqlite://{}", copy.display());
    let nothing = FakeJetstream::start().await;
    let mut restored = Instance::start_unclaimed(&url, &nothing.url(), &[]).await;
    restored.admin_key.clone_from(&world.server.admin_key);
    restored.client_key.clone_from(&world.server.client_key);
    let lexicons = async |server: &Instance| server.admin(Method::GET, "/admin/lexicons", None).await.body;
    assert_eq!(lexicons(&restored).await, lexicons(&world.server).await);
    // The events of a repo are applied in order: the rows are those of a prefix of them, as they are in the source.
    let records = restored.records().await;
    assert!((1..=401).contains(&records), "{records}");
    for n in [0, 1, 100, 398, 399] {
        let path = format!("{LIST}?uri=at://{ALICE}/{NOTES}/k{n:04}");
        let (there, original) = (restored.xrpc(&path).await, world.server.xrpc(&path).await);
        assert_eq!(there.status == 200, n + 2 <= records, "{n} of {records}");
        if there.status == 200 {
            assert_eq!(there.body, original.body);
        }
    }
    // The scripts' own table came along: it can't be created again.
    assert_eq!(restored.xrpc(OWN).await.status, 500);
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
