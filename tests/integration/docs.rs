//! Checks the documentation against the code: environment variables, paths and links.

use std::path::{Path, PathBuf};

use belvedere::cli::Cli;
use clap::CommandFactory as _;

use crate::layers::crates;

#[test]
fn operations_lists_every_variable() {
    let document = include_str!("../../docs/operations.md");
    let command = Cli::command();
    let mut variables = 0;
    for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
        let Some(variable) = argument.get_env() else { continue };
        let variable = variable.to_string_lossy();
        let row = document.lines().find_map(|line| line.strip_prefix(&format!("| `{variable}` | ")));
        let row = row.unwrap_or_else(|| panic!("{variable} is missing in docs/operations.md"));
        let documented = row.split(" |").next().unwrap_or_default().replace('`', "");
        let help =
            argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
        let default = help.split_once("[default: ").and_then(|(_, rest)| rest.split_once(']'));
        let default = default.map_or("–", |(default, _)| default);
        assert_eq!(documented, default, "docs/operations.md and --help differ about {variable}");
        variables += 1;
    }
    assert!(variables > 20, "only {variables} variables found");
}

/// The documents and their texts.
fn documents() -> Vec<(PathBuf, String)> {
    fn below(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display())) {
            let path = entry.unwrap().path();
            if path.is_dir() {
                below(&path, found);
            } else if path.extension().is_some_and(|ending| ending == "md") {
                found.push(path);
            }
        }
    }
    let mut found = vec![root().join("README.md"), root().join("migrations/README.md")];
    below(&root().join("docs"), &mut found);
    found.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

/// The project's folder.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Paths that exist only while a server runs.
const OF_INSTANCES: [&str; 1] = ["data/"];

/// Whether a text between backticks looks like the path of a file or folder in this repository.
fn is_path(text: &str) -> bool {
    let named =
        [".rs", ".toml", ".sh", ".md", ".mjs", ".lua", ".wit", ".sql"].iter().any(|end| text.ends_with(end));
    (named || text.ends_with('/'))
        && text.contains('/')
        && !text.starts_with('/')
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "/._-".contains(c))
}

#[test]
fn every_path_in_the_documents_exists() {
    let mut roots = vec![root(), root().join("host"), root().join("tests/integration")];
    roots.extend(crates());
    let (mut seen, mut missing) = (0, Vec::new());
    for (document, text) in documents() {
        let code = text.split('`').skip(1).step_by(2).filter_map(|code| code.split(':').next());
        for path in code.map(str::trim).filter(|path| is_path(path) && !OF_INSTANCES.contains(path)) {
            seen += 1;
            if !roots.iter().any(|root| root.join(path).exists()) {
                missing.push(format!("{}: {path}", document.display()));
            }
        }
        let links = text.split("](").skip(1).filter_map(|link| link.split([')', '#']).next());
        for link in links.filter(|link| !link.is_empty() && !link.contains("://")) {
            seen += 1;
            if !document.with_file_name(link).exists() {
                missing.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(missing.is_empty(), "the documents name what is not there: {missing:#?}");
    assert!(seen > 100, "only {seen} paths found");
}

/// The names of metrics in a text, without what Prometheus adds to histograms.
fn metrics_in(text: &str) -> std::collections::BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let words = text.split(|c| !is_part(c)).filter(|word| word.starts_with("belvedere_"));
    words.map(|word| word.trim_end_matches("_bucket").to_owned()).collect()
}

#[test]
fn boards_and_alerts_use_metrics_that_exist() {
    fn sources(folder: &Path, found: &mut String) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                found.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
    }
    let mut code = String::new();
    sources(&root().join("host"), &mut code);
    let known = metrics_in(&code);
    for name in ["board.json", "alerts.yml"] {
        let used = metrics_in(&std::fs::read_to_string(root().join("docs/grafana").join(name)).unwrap());
        let unknown: Vec<_> = used.difference(&known).collect();
        assert!(unknown.is_empty() && used.len() > 8, "{name}: {unknown:?} of {used:?}");
    }
    let board = std::fs::read_to_string(root().join("docs/grafana/board.json")).unwrap();
    assert!(serde_json::from_str::<serde_json::Value>(&board).is_ok());
}
