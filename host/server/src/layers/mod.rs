//! The order of the rooms in `lib.rs` is the order of the layers.

mod file_circles;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The files below `root` that are not tests, by their path below it, with their code: no comments, no tests.
fn sources(root: &Path) -> Vec<(PathBuf, String)> {
    let mut sources = Vec::new();
    for file in files(root) {
        let path = file.strip_prefix(root).expect("it lies below").to_owned();
        let is_test = |name: &std::ffi::OsStr| {
            ["tests", "tests.rs", "standin.rs", "layers"].iter().any(|test| name == *test)
        };
        if path.iter().any(is_test) {
            continue;
        }
        let text = std::fs::read_to_string(&file).expect("it can be read");
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        sources.push((path, code.collect::<Vec<_>>().join("\n")));
    }
    sources
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("the sources are here");
    let paths = entries.map(|entry| entry.expect("it can be listed").path());
    let (folders, files): (Vec<_>, Vec<_>) = paths.partition(|path| path.is_dir());
    let files = files.into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "rs"));
    files.chain(folders.iter().flat_map(|folder| self::files(folder))).collect()
}

/// The imports of rooms that are later in the list.
fn imports_of_later_rooms(root: &Path, rooms: &[String]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (path, code) in sources(root) {
        let importer = path.iter().next().expect("a file has a name").to_string_lossy();
        let importer = importer.trim_end_matches(".rs");
        let Some(rank) = rooms.iter().position(|other| other == importer) else { continue };
        for line in code.lines() {
            for used in line.split("crate::").skip(1) {
                // A list would hide the rooms' names.
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

#[test]
fn no_room_uses_a_later_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let names = include_str!("../lib.rs").lines().filter_map(|line| line.strip_prefix("mod "));
    let rooms: Vec<String> =
        names.map(|line| line.split(';').next().unwrap_or_default().to_owned()).collect();
    assert!(rooms.len() > 20, "{rooms:?}");
    let upside_down: Vec<String> = rooms.iter().rev().cloned().collect();
    assert!(imports_of_later_rooms(&root, &upside_down).len() > 500, "imports are found");
    let found = imports_of_later_rooms(&root, &rooms);
    assert!(found.is_empty(), "rooms use later ones: {found:#?}");
}
