//! Reads what the comments in the source say about each endpoint: `` `METHOD /path`: text ``, above its handler or at the
//! top of its file.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The text about each path and method: the first sentence, and the others.
pub(super) type Comments = BTreeMap<(String, String), (String, Option<String>)>;

/// Adds the comments of all files in a folder.
pub(super) fn read(folder: &Path, found: &mut Comments) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            for block in blocks(&fs::read_to_string(&path).unwrap()) {
                add(&block, found);
            }
        }
    }
}

/// The first paragraphs of comments, each on one line.
fn blocks(text: &str) -> Vec<String> {
    let mut blocks = vec![String::new()];
    for line in text.lines().map(str::trim) {
        match line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) {
            Some(comment) if !comment.is_empty() => {
                let block = blocks.last_mut().unwrap();
                *block = format!("{block} {}", comment.trim()).trim().to_owned();
            }
            _ => blocks.push(String::new()),
        }
    }
    blocks
}

fn add(block: &str, found: &mut Comments) {
    let said = block.strip_prefix('`').and_then(|rest| rest.split_once("`: "));
    let Some(((method, path), text)) = said.and_then(|(route, text)| Some((route.split_once(' ')?, text)))
    else {
        return;
    };
    let text = plain(text);
    let (first, others) = match text.split_once(". ") {
        Some((first, others)) => (format!("{first}."), Some(others.to_owned())),
        None => (text, None),
    };
    let mut characters = first.chars();
    let capital = characters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let path = path.split('?').next().unwrap_or_default();
    let before = found
        .insert((path.to_owned(), method.to_owned()), (format!("{capital}{}", characters.as_str()), others));
    assert_eq!(before, None, "{method} {path} is described twice");
}

/// Without links to the source, and on one line.
pub(super) fn plain(text: &str) -> String {
    text.replace("[`", "`").replace("`]", "`").replace('\n', " ")
}

#[test]
fn comments_that_begin_with_a_route_are_read() {
    let mut found = Comments::new();
    let text = "//! `GET /a/{id}?x=`: the first\n//! one. See [`Two`].\n\n/// `POST /b`\n\n/// `PUT /c`: c.\nfn f() {}";
    for block in blocks(text) {
        add(&block, &mut found);
    }
    let route = |path: &str, method: &str| (path.to_owned(), method.to_owned());
    let expected = (("The first one.".to_owned(), Some("See `Two`.".to_owned())), ("C.".to_owned(), None));
    assert_eq!((found[&route("/a/{id}", "GET")].clone(), found[&route("/c", "PUT")].clone()), expected);
    assert_eq!(found.len(), 2);
}
