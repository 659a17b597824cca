//! The order of the rooms in the `lib.rs` of a crate is the order of the layers. The crates' own order is the compiler's to keep.

mod file_circles;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::docs::root;

/// The files below `root` that are not tests, by their path below it, with their code: no comments, no tests.
fn sources(root: &Path) -> Vec<(PathBuf, String)> {
    let mut sources = Vec::new();
    for file in files(root) {
        let path = file.strip_prefix(root).expect("it lies below").to_owned();
        let is_test = |name: &std::ffi::OsStr| {
            ["tests", "tests.rs", "testing", "testing.rs", "standin.rs"].iter().any(|test| name == *test)
        };
        if path.iter().any(is_test) {
            continue;
        }
        let text = std::fs::read_to_string(&file).expect("it can be read");
        // Inline tests end a file.
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        sources.push((path, code.collect::<Vec<_>>().join("\n")));
    }
    sources
}

/// The sources below a folder, without results of builds.
pub(crate) fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("the sources are here");
    let paths = entries.map(|entry| entry.expect("it can be listed").path());
    let (folders, files): (Vec<_>, Vec<_>) = paths.partition(|path| path.is_dir());
    let files = files.into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "rs"));
    let folders = folders.iter().filter(|folder| !folder.ends_with("target"));
    files.chain(folders.flat_map(|folder| self::files(folder))).collect()
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

/// The folders of the crates' sources.
pub(crate) fn crates() -> Vec<PathBuf> {
    let host = root().join("host");
    let entries = std::fs::read_dir(host).expect("the crates are here");
    let sources = entries.map(|entry| entry.expect("it can be listed").path().join("src"));
    sources.filter(|path| path.join("lib.rs").exists()).collect()
}

/// The rooms of a crate, the lowest first.
fn rooms(root: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(root.join("lib.rs")).expect("a crate has one");
    let names = text.lines().filter_map(|line| line.trim_start_matches("pub ").strip_prefix("mod "));
    names.map(|line| line.split(';').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn no_room_uses_a_later_one() {
    let (mut names, mut imports) = (BTreeSet::new(), 0);
    for root in crates() {
        let rooms = rooms(&root);
        names.extend(rooms.clone());
        let upside_down: Vec<String> = rooms.iter().rev().cloned().collect();
        imports += imports_of_later_rooms(&root, &upside_down).len();
        let found = imports_of_later_rooms(&root, &rooms);
        assert!(found.is_empty(), "rooms of {} use later ones: {found:#?}", root.display());
    }
    assert!(names.len() > 35 && imports > 300, "{imports} imports of {names:?}");
}
