//! The files of a new plugin, compiled in: those of `plugins/template`, the crate for plugins in Rust, and the contract.

use super::Kind;

/// A file's path in the new folder, and its text.
type File = (&'static str, &'static str);

macro_rules! files {
    ($from:literal, $to:literal, [$($name:literal),* $(,)?]) => {
        &[$((concat!($to, $name), include_str!(concat!("../../../../../", $from, $name)))),*]
    };
}

/// The same for all kinds.
pub(super) const COMMON: &[&[File]] = &[
    files!("plugins/template/common/", "", ["Cargo.toml", "README.md", "gitignore"]),
    files!("plugins/sdk/", "crates/sdk/", ["Cargo.toml"]),
    files!(
        "plugins/sdk/src/",
        "crates/sdk/src/",
        [
            "bindings.rs",
            "export.rs",
            "fault.rs",
            "host.rs",
            "http.rs",
            "lib.rs",
            "manifest.rs",
            "pkce.rs",
            "time.rs",
            "traits.rs",
            "types.rs",
            "url.rs",
        ]
    ),
    files!(
        "wit/plugin/",
        "wit/plugin/",
        [
            "attest.wit",
            "callable.wit",
            "clock.wit",
            "describe.wit",
            "http.wit",
            "kv.wit",
            "linking.wit",
            "log.wit",
            "lookup.wit",
            "secrets.wit",
            "sync.wit",
            "types.wit",
            "worlds.wit",
        ]
    ),
];

/// The files of one kind.
pub(super) fn of(kind: Kind) -> &'static [File] {
    match kind {
        Kind::Account => files!("plugins/template/account/", "", ["manifest.json", "src/lib.rs"]),
        Kind::Sync => files!("plugins/template/sync/", "", ["manifest.json", "src/lib.rs"]),
        Kind::Library => files!("plugins/template/library/", "", ["manifest.json", "src/lib.rs"]),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn no_file_of_a_copied_folder_is_missing() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (from, to) in [("plugins/sdk/src", "crates/sdk/src/"), ("wit/plugin", "wit/plugin/")] {
            let entries = fs::read_dir(root.join(from)).unwrap();
            let there: BTreeSet<String> =
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            let copied = COMMON.iter().copied().flatten();
            let copied: BTreeSet<String> =
                copied.filter_map(|(path, _)| path.strip_prefix(to)).map(str::to_owned).collect();
            assert_eq!(there, copied, "{from}");
        }
    }

    #[test]
    fn the_template_has_the_versions_of_the_workspace() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let workspace = fs::read_to_string(root.join("plugins/Cargo.toml")).unwrap();
        let template = include_str!("../../../../../plugins/template/common/Cargo.toml");
        let dependencies =
            template.split("[workspace.dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
        let lines: Vec<&str> = dependencies.lines().filter(|line| line.contains('=')).collect();
        assert!(lines.len() >= 5, "{lines:?}");
        for line in lines.into_iter().filter(|line| !line.contains("path =")) {
            assert!(workspace.contains(line), "{line}");
        }
    }
}
