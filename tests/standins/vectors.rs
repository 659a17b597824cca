//! Finds test data that is not part of the repository: the protocol's interop vectors, and captured events.

use std::path::{Path, PathBuf};

/// Reads a file of the interop vectors (`syntax/…`, `data-model/…`, `crypto/…`). They are not part of the repository:
/// `BELVEDERE_SHARED` names the folder that contains `interop`; the default is a folder beside the checkout.
/// Prints a note and returns `None` when there is no such file.
pub fn read(name: &str) -> Option<String> {
    let found = roots().find_map(|root| std::fs::read_to_string(root.join("interop").join(name)).ok());
    if found.is_none() {
        note(&format!("skipped: no interop vectors ({name}); set BELVEDERE_SHARED"));
    }
    found
}

/// The folder `lexicons` beside `interop`: lexicons of public repositories. Prints a note and returns `None` when there is
/// no such folder.
pub fn lexicon_folder() -> Option<PathBuf> {
    let found = roots().map(|root| root.join("lexicons")).find(|folder| folder.is_dir());
    if found.is_none() {
        note("skipped: no real lexicons; set BELVEDERE_SHARED");
    }
    found
}

/// The documents in [`lexicon_folder`].
pub fn lexicons() -> Option<Vec<serde_json::Value>> {
    let folder = lexicon_folder()?;
    let (mut documents, mut folders) = (Vec::new(), vec![folder]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "json") {
                let text = std::fs::read_to_string(&path).expect("a text");
                documents.push(serde_json::from_str(&text).expect("JSON"));
            }
        }
    }
    Some(documents)
}

/// The folders that may hold test data of other people.
fn roots() -> impl Iterator<Item = PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let beside = ["../../shared", "../../../shared", "../../../../shared"].map(|root| here.join(root));
    folder("BELVEDERE_SHARED").into_iter().chain(beside)
}

/// The cases of a line-based file, without comments. Lines are not trimmed: some cases are invalid because of a space.
pub fn lines(name: &str) -> Option<Vec<String>> {
    let text = read(name)?;
    Some(text.lines().filter(|l| !l.is_empty() && !l.starts_with('#')).map(str::to_owned).collect())
}

/// The folder that `BELVEDERE_CORPUS` names. Captured events and the public dictionary are not in the repository, because
/// we must not redistribute them. Prints a note and returns `None` when there is no such folder.
pub fn corpus() -> Option<PathBuf> {
    let folder = folder("BELVEDERE_CORPUS").filter(|folder| folder.is_dir());
    if folder.is_none() {
        note("skipped: BELVEDERE_CORPUS does not name a folder of captured events");
    }
    folder
}

#[expect(clippy::disallowed_methods, reason = "a test reads where its data is")]
fn folder(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from)
}

#[expect(clippy::print_stderr, reason = "reports a skipped test")]
fn note(text: &str) {
    eprintln!("{text}");
}
