//! Tests that a room uses only rooms that stand above it in `lib.rs`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The lines outside tests that use a room further down in `rooms`, each with its file.
fn imports_of_later_rooms(root: &Path, rooms: &[String]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in files(root) {
        let path = file.strip_prefix(root).expect("the file is below the root").with_extension("");
        let mut components = path.iter().map(|part| part.to_string_lossy().into_owned());
        let importer = components.next().expect("a file has a name");
        let is_test = components.any(|part| part == "tests" || part == "standin");
        let Some(rank) = rooms.iter().position(|other| *other == importer).filter(|_| !is_test) else {
            continue;
        };
        let text = std::fs::read_to_string(&file).expect("the file is readable");
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
            for used in line.split("crate::").skip(1) {
                // `use crate::{…}` would hide the rooms' names from this test.
                assert!(!used.starts_with('{'), "{}: one `use` for each room", path.display());
                let used =
                    used.split(|c: char| !c.is_ascii_lowercase() && c != '_').next().unwrap_or_default();
                if rooms.iter().position(|other| other == used).is_some_and(|other| other > rank) {
                    found.insert(format!("{}: {}", path.display(), line.trim()));
                }
            }
        }
    }
    found
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("the folder is readable");
    let paths = entries.map(|entry| entry.expect("the entry is readable").path());
    let (folders, files): (Vec<_>, Vec<_>) = paths.partition(|path| path.is_dir());
    let files = files.into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "rs"));
    files.chain(folders.iter().flat_map(|folder| self::files(folder))).collect()
}

#[test]
fn no_room_uses_a_later_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let names = include_str!("lib.rs").lines().filter_map(|line| line.strip_prefix("pub mod "));
    let rooms: Vec<String> =
        names.map(|line| line.split(';').next().unwrap_or_default().to_owned()).collect();
    assert!(rooms.len() > 20, "{rooms:?}");
    let reversed: Vec<String> = rooms.iter().rev().cloned().collect();
    assert!(imports_of_later_rooms(&root, &reversed).len() > 500, "the test finds imports");
    let found = imports_of_later_rooms(&root, &rooms);
    assert!(found.is_empty(), "rooms use rooms below them in lib.rs: {found:#?}");
}
