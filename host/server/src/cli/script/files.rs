//! Maps triggers to files (`KIND/SUBJECT.lua` for the trigger `KIND:SUBJECT`, `xrpc.view/NSID.json` for a view) and reads
//! folders of scripts.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::super::folder::entries;
use belvedere_protocol::trigger::{Trigger, TriggerKind};

/// The extension of scripts.
const EXTENSION: &str = "lua";

/// The extension of views.
const VIEW_EXTENSION: &str = "json";

/// The extension of the file of a trigger of this kind.
fn extension_of(kind: &str) -> &'static str {
    if kind == TriggerKind::View.as_str() { VIEW_EXTENSION } else { EXTENSION }
}

/// A script in a folder.
#[derive(Debug)]
pub(super) struct ScriptFile {
    pub(super) path: PathBuf,
    pub(super) trigger: Trigger,
    pub(super) source: String,
}

impl ScriptFile {
    /// Whether it is a view, which has no lines that run.
    pub(super) fn is_view(&self) -> bool {
        self.trigger.kind() == TriggerKind::View
    }
}

/// The scripts of a folder, and files that only look like scripts.
#[derive(Debug, Default)]
pub(super) struct Folder {
    pub(super) scripts: Vec<ScriptFile>,
    pub(super) unknown: Vec<UnknownFile>,
}

/// A file that is bound to nothing, though it seems to be meant as a script.
#[derive(Debug)]
pub(super) struct UnknownFile {
    path: PathBuf,
    reason: &'static str,
}

impl fmt::Display for UnknownFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}, so the script would be bound to nothing", self.path.display(), self.reason)
    }
}

const NOT_IN_A_KIND: &str = "it is not in a folder named like a kind of trigger (such as xrpc.query)";
const NO_SUBJECT: &str = "its name is not a trigger of this kind";
const NO_SCRIPT: &str = "scripts are files that end in .lua, and views end in .json";

/// Folders beside those of the kinds that are not read: of `script init`, and for tests of scripts.
const OTHER_FOLDERS: [&str; 3] = ["library", "test", "tests"];

/// Extensions of notes, which may lie beside scripts.
const NOTES: [&str; 2] = ["md", "txt"];

/// The path of a trigger's script in a folder. All characters of a trigger are safe in file names.
pub(super) fn path_of(dir: &Path, trigger: &Trigger) -> PathBuf {
    let kind = trigger.kind().as_str();
    dir.join(kind).join(format!("{}.{}", trigger.subject(), extension_of(kind)))
}

/// The trigger that the end of a path names; `None` when it names none.
pub(super) fn trigger_of(path: &Path) -> Option<Trigger> {
    let kind = path.parent()?.file_name()?.to_str()?;
    let subject = path.file_name()?.to_str()?.strip_suffix(&format!(".{}", extension_of(kind)))?;
    Trigger::parse(&format!("{kind}:{subject}")).ok()
}

/// Reads all scripts of a folder, sorted by trigger id, and lists the files that are not understood: every file in a
/// kind's folder that names no trigger, and Lua files elsewhere. Hidden files, notes and [`OTHER_FOLDERS`] are skipped.
///
/// # Errors
/// When a folder can't be listed or a script can't be read.
pub(super) fn read_folder(dir: &Path) -> anyhow::Result<Folder> {
    let mut folder = Folder::default();
    for path in entries(dir)? {
        if path.is_dir() && is_kind(&path) {
            read_kind(&path, &mut folder)?;
        } else if !is_other_folder(&path) {
            lua_below(&path, &mut folder.unknown)?;
        }
    }
    folder.scripts.sort_by(|a, b| a.trigger.id().cmp(b.trigger.id()));
    Ok(folder)
}

/// The folder of the libraries beside the folder of a script.
pub(super) fn library_folder(script: &Path) -> Option<PathBuf> {
    trigger_of(script)?;
    let folder = script.parent()?.parent()?.join(TriggerKind::Library.as_str());
    folder.is_dir().then_some(folder)
}

/// Reads the libraries of a folder.
///
/// # Errors
/// When they can't be read.
pub(super) fn read_libraries(folder: &Path) -> anyhow::Result<Vec<ScriptFile>> {
    let mut read = Folder::default();
    read_kind(folder, &mut read)?;
    Ok(read.scripts)
}

/// Reads the folder of one kind of trigger.
fn read_kind(kind: &Path, folder: &mut Folder) -> anyhow::Result<()> {
    for path in entries(kind)? {
        if let Some(trigger) = trigger_of(&path).filter(|_| !path.is_dir()) {
            folder.scripts.push(ScriptFile { source: read(&path)?, path, trigger });
        } else if path.is_dir() || is_lua(&path) {
            lua_below(&path, &mut folder.unknown)?;
        } else if !NOTES.iter().any(|notes| has_extension(&path, notes)) {
            folder.unknown.push(UnknownFile { path, reason: NO_SCRIPT });
        }
    }
    Ok(())
}

/// Lists the Lua files at or below a path that names no trigger.
fn lua_below(path: &Path, unknown: &mut Vec<UnknownFile>) -> anyhow::Result<()> {
    if path.is_dir() && !path.is_symlink() {
        for entry in entries(path)? {
            lua_below(&entry, unknown)?;
        }
    } else if is_lua(path) {
        let in_kind = path.parent().is_some_and(is_kind);
        let reason = match (in_kind, has_extension(path, EXTENSION)) {
            (true, true) => NO_SUBJECT,
            (true, false) => NO_SCRIPT,
            (false, _) => NOT_IN_A_KIND,
        };
        unknown.push(UnknownFile { path: path.to_owned(), reason });
    }
    Ok(())
}

fn is_other_folder(path: &Path) -> bool {
    path.is_dir() && OTHER_FOLDERS.iter().any(|name| path.file_name().is_some_and(|found| found == *name))
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

fn is_lua(path: &Path) -> bool {
    path.extension().is_some_and(|found| found.eq_ignore_ascii_case(EXTENSION))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_triggers_convert_both_ways() {
        for id in [
            "xrpc.query:com.example.get",
            "xrpc.view:com.example.get",
            "record.index:a.b",
            "labeler.apply:_actor",
            "job.run:nightly",
            "lib:posts",
        ] {
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
    fn a_folder_is_read_by_kind_and_what_is_not_understood_is_listed() {
        let dir = tempfile::tempdir().unwrap();
        let file = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for (path, text) in [
            ("xrpc.query/com.example.b.lua", "b"),
            ("xrpc.view/com.example.c.json", "{}"),
            ("job.run/nightly.lua", "j"),
            ("xrpc.query/com.example.a.lua", "a"),
            ("xrpc.query/notes.txt", "not a script"),
            ("xrpc.query/.com.example.a.lua.swp", "not a script"),
            ("library/db.lua", "not a script"),
            ("tests/list.lua", "not a script"),
            ("README.md", ""),
            (".luarc.json", "{}"),
        ] {
            file(path, text);
        }
        let found = read_folder(dir.path()).unwrap();
        let scripts: Vec<_> = found.scripts.iter().map(|file| (file.trigger.id(), &*file.source)).collect();
        assert_eq!(
            scripts,
            [
                ("job.run:nightly", "j"),
                ("xrpc.query:com.example.a", "a"),
                ("xrpc.query:com.example.b", "b"),
                ("xrpc.view:com.example.c", "{}")
            ]
        );
        assert!(found.unknown.is_empty(), "{:?}", found.unknown);

        let unknown = [
            ("loose.lua", NOT_IN_A_KIND),
            ("xrpc.querry/com.example.a.lua", NOT_IN_A_KIND),
            ("xrpc.query/com.example.c", NO_SCRIPT),
            ("xrpc.query/com.example.d.LUA", NO_SCRIPT),
            ("xrpc.view/com.example.d.lua", NO_SUBJECT),
            ("xrpc.query/deep/com.example.a.lua", NOT_IN_A_KIND),
            ("xrpc.query/nonsense.lua", NO_SUBJECT),
        ];
        for (path, _) in unknown {
            file(path, "");
        }
        let found = read_folder(dir.path()).unwrap();
        assert_eq!(found.scripts.len(), 4);
        let mut listed: Vec<_> =
            found.unknown.iter().map(|file| (file.path.as_path(), file.reason)).collect();
        listed.sort_unstable();
        let mut expected: Vec<_> =
            unknown.iter().map(|(path, reason)| (dir.path().join(path), *reason)).collect();
        expected.sort_unstable();
        let expected: Vec<_> = expected.iter().map(|(path, reason)| (path.as_path(), *reason)).collect();
        assert_eq!(listed, expected);
        assert!(read_folder(&dir.path().join("nowhere")).is_err());
    }
}
