//! Maps triggers to files (`KIND/SUBJECT.lua` for the trigger `KIND:SUBJECT`) and reads folders of scripts.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::trigger::Trigger;

/// The extension of script files.
const EXTENSION: &str = "lua";

/// A script in a folder.
#[derive(Debug)]
pub(super) struct ScriptFile {
    pub(super) path: PathBuf,
    pub(super) trigger: Trigger,
    pub(super) source: String,
}

/// The path of a trigger's script in a folder. All characters of a trigger are safe in file names.
pub(super) fn path_of(dir: &Path, trigger: &Trigger) -> PathBuf {
    dir.join(trigger.kind().as_str()).join(format!("{}.{EXTENSION}", trigger.subject()))
}

/// The trigger that the end of a path names; `None` when it names none.
pub(super) fn trigger_of(path: &Path) -> Option<Trigger> {
    let kind = path.parent()?.file_name()?.to_str()?;
    let subject = path.file_name()?.to_str()?.strip_suffix(&format!(".{EXTENSION}"))?;
    Trigger::parse(&format!("{kind}:{subject}")).ok()
}

/// Reads all scripts of a folder, sorted by trigger id. Subfolders that are not named like a kind of trigger are
/// skipped: they contain tests, type annotations and the like.
///
/// # Errors
/// When a file in a kind's subfolder does not name a trigger, or can't be read.
pub(super) fn read_folder(dir: &Path) -> anyhow::Result<Vec<ScriptFile>> {
    let mut found = Vec::new();
    for kind in entries(dir)? {
        if !kind.is_dir() || !is_kind(&kind) {
            continue;
        }
        for path in entries(&kind)? {
            if path.extension().is_none_or(|extension| extension != EXTENSION) {
                continue;
            }
            let Some(trigger) = trigger_of(&path) else {
                bail!(
                    "{}: the name is not a trigger of this kind, so the script would be bound to nothing",
                    path.display()
                );
            };
            found.push(ScriptFile { source: read(&path)?, path, trigger });
        }
    }
    found.sort_by(|a, b| a.trigger.id().cmp(b.trigger.id()));
    Ok(found)
}

pub(super) fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("{} can't be read", path.display()))
}

/// Whether a folder is named like a kind of trigger.
fn is_kind(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    // Any valid subject will do, because only the kind is checked.
    ["a.b", "a"].iter().any(|subject| Trigger::parse(&format!("{name}:{subject}")).is_ok())
}

fn entries(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let list = fs::read_dir(dir).with_context(|| format!("{} can't be listed", dir.display()))?;
    let mut paths = list.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_triggers_convert_both_ways() {
        for id in
            ["xrpc.query:com.example.get", "record.index:a.b", "labeler.apply:_actor", "job.run:nightly"]
        {
            let trigger = Trigger::parse(id).unwrap();
            let path = path_of(Path::new("dir"), &trigger);
            assert_eq!(trigger_of(&path), Some(trigger), "{}", path.display());
        }
        for path in
            ["get.lua", "xrpc.query/get.lua", "xrpc.query/com.example.get", "queries/com.example.get.lua"]
        {
            assert_eq!(trigger_of(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn a_folder_is_read_by_kind() {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("xrpc.query/com.example.b.lua", "b"),
            ("job.run/nightly.lua", "j"),
            ("xrpc.query/com.example.a.lua", "a"),
            ("xrpc.query/notes.txt", "not a script"),
            ("library/db.lua", "not a script"),
            ("README.md", ""),
        ] {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let found = read_folder(dir.path()).unwrap();
        let found: Vec<_> = found.iter().map(|file| (file.trigger.id(), &*file.source)).collect();
        assert_eq!(
            found,
            [("job.run:nightly", "j"), ("xrpc.query:com.example.a", "a"), ("xrpc.query:com.example.b", "b")]
        );

        fs::write(dir.path().join("xrpc.query/nonsense.lua"), "").unwrap();
        assert!(read_folder(dir.path()).unwrap_err().to_string().contains("nonsense.lua"));
        assert!(read_folder(&dir.path().join("nowhere")).is_err());
    }
}
