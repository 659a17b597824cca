//! No two files use each other, directly or through others, and no two entries of a folder do: a file and what is in the folder of
//! its name count as one entry there. A file and those below it may use each other: a `mod.rs` declares its files, and they use
//! what it declares.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The path of a module below `crate`, and of an item in it.
type Names = Vec<String>;
/// For each module those that it uses.
type Uses = BTreeMap<Names, BTreeSet<Names>>;

/// The paths of one `use` tree, lists expanded.
fn expand(prefix: &[&str], tree: &str, paths: &mut Vec<Names>) {
    let (head, list) = tree.split_once('{').unwrap_or((tree, ""));
    let head = head.split(" as ").next().unwrap_or_default();
    let path: Vec<&str> = prefix.iter().copied().chain(head.trim().split("::")).collect();
    let path: Vec<&str> = path.into_iter().filter(|name| !name.is_empty()).collect();
    if list.is_empty() {
        paths.push(path.into_iter().map(str::to_owned).collect());
        return;
    }
    let (mut depth, mut start) = (0, 0);
    let list = list.trim_end().trim_end_matches('}');
    for (at, character) in list.char_indices().chain([(list.len(), ',')]) {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let branch = list[start..at].trim();
                if !branch.is_empty() {
                    expand(&path, branch, paths);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// The module that a path of module `from` leads to.
fn resolve(modules: &BTreeMap<Names, String>, from: &[String], path: &[String]) -> Option<Names> {
    let mut base = from.to_vec();
    let mut rest = path;
    match path.first().map(String::as_str) {
        Some("crate") => {
            base.clear();
            rest = &path[1..];
        }
        Some("super") => {
            while rest.first().is_some_and(|name| name == "super") {
                base.pop();
                rest = &rest[1..];
            }
        }
        _ => {}
    }
    base.extend_from_slice(rest);
    (1..=base.len())
        .rev()
        .map(|length| &base[..length])
        .find(|path| modules.contains_key(*path))
        .map(<[_]>::to_vec)
}

/// For each module those that it uses, without those above and below it.
fn uses(modules: &BTreeMap<Names, String>) -> Uses {
    let one = |(module, code): (&Names, &String)| {
        let mut paths = Vec::new();
        for tree in code.split("use ").skip(1) {
            expand(&[], tree.split(';').next().unwrap_or_default(), &mut paths);
        }
        for start in ["crate::", "super::"] {
            for (at, _) in code.match_indices(start) {
                let path = code[at..].split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').next();
                expand(&[], path.unwrap_or_default().trim_end_matches(':'), &mut paths);
            }
        }
        let used = paths.iter().filter_map(|path| resolve(modules, module, path));
        used.filter(|other| !other.starts_with(module) && !module.starts_with(other)).collect()
    };
    modules.iter().map(|entry| (entry.0.clone(), one(entry))).collect()
}

/// Removes the modules that use no other one that is left, until every one left uses another: the circles, and what
/// uses them.
fn circles(mut uses: Uses) -> Uses {
    loop {
        let left: BTreeSet<Names> = uses.keys().cloned().collect();
        for used in uses.values_mut() {
            used.retain(|other| left.contains(other));
        }
        let before = uses.len();
        uses.retain(|_, used| !used.is_empty());
        if uses.len() == before {
            return uses;
        }
    }
}

/// The uses between the entries of a folder: its files, each with what is in the folder of the same name.
fn uses_in(folder: &[String], uses: &Uses) -> Uses {
    let entry = |module: &Names| {
        module.starts_with(folder).then(|| module.get(..=folder.len())).flatten().map(<[_]>::to_vec)
    };
    let mut between = Uses::new();
    for (user, used) in uses.iter().filter_map(|(module, used)| Some((entry(module)?, used))) {
        let others = used.iter().filter_map(entry).filter(|other| *other != user).collect::<Vec<_>>();
        between.entry(user).or_default().extend(others);
    }
    between
}

fn module_of(file: &Path) -> Names {
    let names = file.with_extension("");
    let names = names.iter().map(|name| name.to_string_lossy().into_owned());
    names.filter(|name| name != "mod").collect()
}

#[test]
fn no_files_use_each_other() {
    let mut imports = 0;
    for root in super::crates() {
        let modules: BTreeMap<Names, String> = super::sources(&root)
            .into_iter()
            .filter(|(file, _)| file != Path::new("lib.rs") && file != Path::new("main.rs"))
            .map(|(file, code)| (module_of(&file), code))
            .collect();
        let mut uses = uses(&modules);
        imports += uses.values().map(BTreeSet::len).sum::<usize>();
        // The table of routes names all handlers, and that of scripts asks it which methods the server answers itself.
        if let Some(used) = uses.get_mut(["api", "admin", "scripts", "body"].map(str::to_owned).as_slice()) {
            used.retain(|module| module.last().is_some_and(|name| name != "routes"));
        }
        let files = circles(uses.clone());
        assert!(files.is_empty(), "files that use each other, and those that use them: {files:#?}");
        let folders: BTreeSet<&[String]> =
            modules.keys().flat_map(|module| (0..module.len()).map(|length| &module[..length])).collect();
        for folder in folders {
            let entries = circles(uses_in(folder, &uses));
            assert!(entries.is_empty(), "entries of {folder:?} that use each other: {entries:#?}");
        }
    }
    assert!(imports > 1_000, "only {imports} imports found");
}

#[test]
fn circles_are_found() {
    let code = [
        ("a", "use super::b::{C, d::E};"),
        ("b", "fn f() { crate::c::g() }"),
        ("c", "use crate::{x, a::F};"),
        ("d", "use super::a;"),
        ("e", ""),
    ];
    let modules: BTreeMap<Names, String> =
        code.into_iter().map(|(name, code)| (vec![name.to_owned()], code.to_owned())).collect();
    let found: Vec<String> = circles(uses(&modules)).into_keys().flatten().collect();
    assert_eq!(found, ["a", "b", "c", "d"], "and what uses the circle");
}
