//! `belvedere script init`: writes the annotations and settings with which the Lua language server completes and checks
//! scripts in an editor.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;

use super::super::print_line;

/// The script API as annotations. Replaced on every run, because it belongs to this version.
const ANNOTATIONS: &str = include_str!("../../../../lua/belvedere.d.lua");

/// Settings of the language server: the Lua version and where the annotations are. An existing file is kept.
const SETTINGS: &str = r#"{
  "runtime.version": "Lua 5.4",
  "runtime.builtin": { "io": "disable", "debug": "disable", "package": "disable" },
  "workspace.library": ["library"],
  "diagnostics.globals": ["handle"],
  "diagnostics.disable": ["lowercase-global"]
}
"#;

pub(super) fn run(dir: &Path) -> anyhow::Result<ExitCode> {
    write(&dir.join("library/belvedere.d.lua"), ANNOTATIONS)?;
    let settings = dir.join(".luarc.json");
    if settings.exists() {
        print_line(&format_args!(
            "kept: {} (make sure that its workspace.library has \"library\")",
            settings.display()
        ));
    } else {
        write(&settings, SETTINGS)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, text))
        .with_context(|| format!("{} can't be written", path.display()))?;
    print_line(&format_args!("written: {}", path.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_are_replaced_and_settings_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        run(dir.path()).unwrap();
        let settings = dir.path().join(".luarc.json");
        let parsed: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(&settings).unwrap()).unwrap();
        assert_eq!(parsed["workspace.library"][0], "library");

        let annotations = dir.path().join("library/belvedere.d.lua");
        fs::write(&annotations, "old").unwrap();
        fs::write(&settings, "{}").unwrap();
        run(dir.path()).unwrap();
        assert_eq!(fs::read_to_string(&annotations).unwrap(), ANNOTATIONS);
        assert_eq!(fs::read_to_string(&settings).unwrap(), "{}");
    }
}
