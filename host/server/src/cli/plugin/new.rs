//! `belvedere plugin new`: writes a new plugin in Rust that compiles, with its tests, into a folder of its name.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};

use super::super::print_line;
use super::{Kind, template};
use belvedere_scripting::plugins::manifest::Manifest;

pub(super) fn run(name: &str, kind: Kind) -> anyhow::Result<ExitCode> {
    let folder = Path::new(name);
    write(folder, name, kind)?;
    print_line(&format_args!("written: {name}/ (begin with src/lib.rs and manifest.json)"));
    print_line(&format_args!("build it: cd {name}, and follow README.md"));
    Ok(ExitCode::SUCCESS)
}

fn write(folder: &Path, name: &str, kind: Kind) -> anyhow::Result<()> {
    let files = template::of(kind).iter().chain(template::COMMON.iter().copied().flatten());
    let files: Vec<(&str, String)> = files.map(|(path, text)| (*path, named(path, text, name))).collect();
    for (path, text) in &files {
        if *path == "manifest.json" {
            // The name becomes the plugin's id.
            Manifest::parse(text.as_bytes())?;
        }
    }
    if folder.exists() {
        bail!("{} exists", folder.display());
    }
    for (path, text) in files {
        // Cargo and git leave out files that begin with a dot from what they copy, so the template has none.
        let path = folder.join(if path == "gitignore" { ".gitignore" } else { path });
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&path, text))
            .with_context(|| format!("{} can't be written", path.display()))?;
    }
    Ok(())
}

/// The text with the plugin's name where the template has its own.
fn named(path: &str, text: &str, name: &str) -> String {
    if path.starts_with("crates/") || path.starts_with("wit/") {
        return text.to_owned();
    }
    let words: Vec<&str> = name.split('-').collect();
    let capital = |word: &&str| {
        let mut letters = word.chars();
        letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
    };
    let type_name: String = words.iter().map(capital).collect();
    text.replace("../../../wit/plugin", "wit/plugin")
        .replace("PLUGIN_TEMPLATE_", &format!("PLUGIN_{}_", name.to_uppercase().replace('-', "_")))
        .replace("template_module", &name.replace('-', "_"))
        .replace("\"name\": \"Template\"", &format!("\"name\": \"{}\"", words.join(" ")))
        .replace("Template", &type_name)
        .replace("template", name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_written_under_its_name() {
        let parent = tempfile::tempdir().unwrap();
        for kind in [Kind::Account, Kind::Sync, Kind::Library] {
            let folder = parent.path().join(format!("{kind:?}"));
            write(&folder, "my-game2", kind).unwrap();
            let read = |path: &str| fs::read_to_string(folder.join(path)).unwrap();
            let manifest = Manifest::parse(read("manifest.json").as_bytes()).unwrap();
            assert_eq!((manifest.id.as_str(), manifest.name.as_str()), ("my-game2", "my game2"));
            let source = read("src/lib.rs");
            assert!(source.contains("struct MyGame2;"), "{source}");
            assert!(source.contains("(MyGame2, \"wit/plugin\")"), "{source}");
            assert!(read("Cargo.toml").contains("name = \"my-game2\""));
            assert!(read("README.md").contains("release/my_game2.wasm"));
            assert!(folder.join(".gitignore").exists());
            for path in ["manifest.json", "src/lib.rs", "Cargo.toml", "README.md"] {
                assert!(!read(path).to_lowercase().contains("template"), "{path}");
            }
            assert!(write(&folder, "my-game2", kind).unwrap_err().to_string().contains("exists"));
        }
    }

    #[test]
    fn names_that_are_no_ids_are_refused() {
        let parent = tempfile::tempdir().unwrap();
        for name in ["", "Game", "a/b", "../a", "a b", "1a", "a\"b"] {
            let folder = parent.path().join("new");
            assert!(write(&folder, name, Kind::Sync).is_err(), "{name}");
            assert!(!folder.exists(), "{name}");
        }
    }
}
