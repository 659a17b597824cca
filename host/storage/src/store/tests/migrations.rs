//! Both backends have the same migrations, and processes that start at the same time apply them once.

use std::collections::BTreeSet;
use std::path::Path;

use belvedere_standins::database::Database;

use crate::store::{Db, StoreError};

fn names(folder: &str) -> BTreeSet<String> {
    std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations").join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn the_two_folders_match() {
    let sqlite = names("sqlite");
    assert!(!sqlite.is_empty());
    assert_eq!(sqlite, names("postgres"));
}

async fn together(url: &str) {
    assert_eq!(Db::open(url, 1).await.unwrap().pending_migrations().await.unwrap(), names("sqlite").len());
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let db = Db::open(url, 2).await.unwrap();
        tasks.push(tokio::spawn(async move {
            db.migrate().await.unwrap();
            assert_eq!(db.pending_migrations().await.unwrap(), 0);
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn several_processes_may_migrate_sqlite_at_once() {
    together(&Database::new_sqlite().url).await;
}

#[tokio::test]
async fn several_processes_may_migrate_postgres_at_once() {
    together(&Database::new_postgres().await.url).await;
}

#[tokio::test]
async fn invalid_urls_are_errors() {
    for url in ["", "mysql://x", "sqlite::memory:", "sqlite://?mode=memory", "data.db"] {
        assert!(matches!(Db::open(url, 1).await, Err(StoreError::Open(_))), "{url}");
    }
    let error = Db::open("postgres://user:hunter2@127.0.0.1:1/x", 1).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    assert!(!error.to_string().contains("hunter2"));
}
