//! The order of the rooms in `lib.rs` is the order of the layers.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A room and one further down that it must not use, of files outside tests.
fn imports_of_later_rooms(root: &Path, rooms: &[String]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in files(root) {
        let place = file.strip_prefix(root).expect("it lies below").with_extension("");
        let mut parts = place.iter().map(|part| part.to_string_lossy().into_owned());
        let importer = parts.next().expect("a file has a name");
        let is_test = parts.any(|part| part == "tests" || part == "standin");
        let Some(rank) = rooms.iter().position(|other| *other == importer).filter(|_| !is_test) else {
            continue;
        };
        let text = std::fs::read_to_string(&file).expect("it can be read");
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
            for used in line.split("crate::").skip(1) {
                // A list would hide the rooms' names.
                assert!(!used.starts_with('{'), "{}: one `use` for each room", place.display());
                let used =
                    used.split(|c: char| !c.is_ascii_lowercase() && c != '_').next().unwrap_or_default();
                if rooms.iter().position(|other| other == used).is_some_and(|other| other > rank) {
                    found.insert(format!("{}: {}", place.display(), line.trim()));
                }
            }
        }
    }
    found
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("the sources are here");
    let paths = entries.map(|entry| entry.expect("it can be listed").path());
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
    let upside_down: Vec<String> = rooms.iter().rev().cloned().collect();
    assert!(imports_of_later_rooms(&root, &upside_down).len() > 500, "imports are seen");
    let found = imports_of_later_rooms(&root, &rooms);
    assert!(found.is_empty(), "rooms use later ones: {found:#?}");
}
