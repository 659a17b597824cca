//! Reads folders of lexicons, and finds the file of a lexicon.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::Value;

use super::super::folder::entries;
use super::lines;
use belvedere_protocol::atproto::Nsid;
use belvedere_protocol::atproto::lexicon::LexiconDoc;
use belvedere_web::http::nul;

/// The extension of lexicon files.
const EXTENSION: &str = "json";

/// A folder that is not read: packages have lexicons of their own.
const PACKAGES: &str = "node_modules";

/// A valid lexicon in a file.
#[derive(Debug)]
pub(super) struct LexiconFile {
    pub(super) path: PathBuf,
    pub(super) id: Nsid,
    pub(super) text: String,
    pub(super) document: Value,
}

/// The JSON files of a folder.
#[derive(Debug, Default)]
pub(super) struct Folder {
    /// By id, and then by path. Equal copies of a lexicon are no problem.
    pub(super) lexicons: Vec<LexiconFile>,
    pub(super) problems: Vec<Problem>,
    /// JSON files that are no lexicons.
    pub(super) others: Vec<PathBuf>,
}

/// An error in a file. It is displayed as `FILE:LINE: message`, the form that editors and terminals can open.
#[derive(Debug)]
pub(super) struct Problem {
    path: PathBuf,
    line: Option<usize>,
    message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path.display(), self.message),
            None => write!(f, "{}: {}", self.path.display(), self.message),
        }
    }
}

/// Reads the JSON files at or below the paths. Hidden files and [`PACKAGES`] are skipped.
///
/// # Errors
/// When a folder can't be listed or a file can't be read.
pub(super) fn read(paths: &[PathBuf]) -> anyhow::Result<Folder> {
    let mut folder = Folder::default();
    for path in paths {
        if path.is_dir() {
            for entry in entries(path)? {
                folder.add_below(&entry)?;
            }
        } else {
            folder.add(path)?;
        }
    }
    folder.lexicons.sort_by(|a, b| (a.id.as_str(), &a.path).cmp(&(b.id.as_str(), &b.path)));
    folder.find_conflicts();
    Ok(folder)
}

/// The file of a lexicon that has none yet.
pub(super) fn path_of(dir: &Path, id: &Nsid) -> PathBuf {
    let mut path = id.as_str().split('.').fold(dir.to_owned(), |path, segment| path.join(segment));
    path.as_mut_os_string().push(format!(".{EXTENSION}"));
    path
}

impl Folder {
    /// The files of each lexicon.
    pub(super) fn by_id(&self) -> BTreeMap<&str, Vec<&LexiconFile>> {
        let mut all: BTreeMap<&str, Vec<&LexiconFile>> = BTreeMap::new();
        for file in &self.lexicons {
            all.entry(file.id.as_str()).or_default().push(file);
        }
        all
    }

    fn add_below(&mut self, path: &Path) -> anyhow::Result<()> {
        let is_named = |name: &str| path.file_name().is_some_and(|found| found == name);
        if path.is_dir() && !path.is_symlink() && !is_named(PACKAGES) {
            entries(path)?.iter().try_for_each(|entry| self.add_below(entry))
        } else if !path.is_dir() && path.extension().is_some_and(|found| found == EXTENSION) {
            self.add(path)
        } else {
            Ok(())
        }
    }

    fn add(&mut self, path: &Path) -> anyhow::Result<()> {
        let bytes = fs::read(path).with_context(|| format!("{} can't be read", path.display()))?;
        match lexicon(path, &bytes) {
            Ok(Some(lexicon)) => self.lexicons.push(lexicon),
            Ok(None) => self.others.push(path.to_owned()),
            Err(problem) => self.problems.push(problem),
        }
        Ok(())
    }

    /// Finds files with the same id and different content.
    fn find_conflicts(&mut self) {
        let conflicts = self.lexicons.chunk_by(|a, b| a.id == b.id).flat_map(|copies| {
            let (first, others) = copies.split_at(1);
            others.iter().filter(|other| other.document != first[0].document).map(|other| Problem {
                path: other.path.clone(),
                line: None,
                message: format!("{} has the same id with another content", first[0].path.display()),
            })
        });
        let conflicts: Vec<_> = conflicts.collect();
        self.problems.extend(conflicts);
    }
}

/// Reads a file. `None` if it is no lexicon.
fn lexicon(path: &Path, bytes: &[u8]) -> Result<Option<LexiconFile>, Problem> {
    let problem = |line, message| Problem { path: path.to_owned(), line, message };
    let text = std::str::from_utf8(bytes).map_err(|error| {
        problem(Some(lines::line_at(bytes, error.valid_up_to())), "it is not UTF-8".to_owned())
    })?;
    let document: Value = serde_json::from_str(text)
        .map_err(|error| problem(Some(error.line()), format!("it is not JSON: {error}")))?;
    if document.get("lexicon").is_none() {
        return Ok(None);
    }
    if nul::in_json(bytes) {
        return Err(problem(None, "it holds a NUL character (U+0000)".to_owned()));
    }
    let LexiconDoc { id, .. } = LexiconDoc::parse(&document)
        .map_err(|error| problem(lines::line_of(text, &error.path), error.to_string()))?;
    if !is_file_of(path, &id) {
        let advice =
            format!("its id is {id}, so its path should end in {}", path_of(Path::new(""), &id).display());
        return Err(problem(
            lines::line_of(text, "id"),
            format!("{advice}, or its name should be {id}.{EXTENSION}"),
        ));
    }
    Ok(Some(LexiconFile { path: path.to_owned(), id, text: text.to_owned(), document }))
}

/// Whether the path names the lexicon: by its end, or by the file's name alone.
fn is_file_of(path: &Path, id: &Nsid) -> bool {
    // A folder may be given relative to one in the middle, such as `.` in `com/example`.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    path.ends_with(format!("{id}.{EXTENSION}")) || path.ends_with(path_of(Path::new(""), id))
}
