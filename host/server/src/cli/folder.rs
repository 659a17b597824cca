//! Reads and writes the files of a folder that is copied to or from a server.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// The content of a folder, hidden files left out, sorted.
pub(super) fn entries(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let list = fs::read_dir(dir).with_context(|| format!("{} can't be listed", dir.display()))?;
    let mut paths = list.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.retain(|path| !is_hidden(path));
    paths.sort();
    Ok(paths)
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// Creates a folder if it does not exist.
pub(super) fn create(dir: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("{} can't be created", dir.display()))
}

/// Replaces a file atomically. Creates its folder.
pub(super) fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut temporary = OsString::from(path);
    temporary.push(".part");
    fs::create_dir_all(path.parent().unwrap_or(path))
        .and_then(|()| fs::write(&temporary, text))
        .and_then(|()| fs::rename(&temporary, path))
        .with_context(|| format!("{} can't be written", path.display()))
}

/// `1 script`, or `2 scripts`.
pub(super) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
