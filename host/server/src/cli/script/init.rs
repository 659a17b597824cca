//! `belvedere script init`: writes the annotations and settings with which the Lua language server completes and checks
//! scripts in an editor.

use std::path::Path;
use std::process::ExitCode;

use super::super::print_line;
use super::super::remote::Server;
use super::annotations;
use belvedere_instance::config::Config;

/// Settings of the language server: the Lua version and where the annotations are. An existing file is kept.
const SETTINGS: &str = r#"{
  "runtime.version": "Lua 5.4",
  "runtime.path": ["lib/?.lua"],
  "runtime.special": { "require": "require" },
  "runtime.builtin": { "io": "disable", "debug": "disable", "package": "disable" },
  "workspace.library": ["library"],
  "diagnostics.globals": ["handle"],
  "diagnostics.disable": ["lowercase-global"]
}
"#;

/// Without a server the annotations have no plugins.
pub(super) async fn run(dir: &Path, server: Option<&Server>, config: &Config) -> anyhow::Result<ExitCode> {
    annotations::write(dir, server, config).await?;
    let settings = dir.join(".luarc.json");
    if settings.exists() {
        print_line(&format_args!(
            "kept: {} (make sure that its workspace.library has \"library\")",
            settings.display()
        ));
    } else {
        annotations::write_file(&settings, SETTINGS)?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[tokio::test]
    async fn annotations_are_replaced_and_settings_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let config = belvedere_instance::config::Args::default().check().unwrap();
        run(dir.path(), None, &config).await.unwrap();
        let settings = dir.path().join(".luarc.json");
        let parsed: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(&settings).unwrap()).unwrap();
        assert_eq!(parsed["workspace.library"][0], "library");

        let annotations = dir.path().join("library/belvedere.d.lua");
        let first = fs::read_to_string(&annotations).unwrap();
        fs::write(&annotations, "old").unwrap();
        fs::write(&settings, "{}").unwrap();
        run(dir.path(), None, &config).await.unwrap();
        assert_eq!(fs::read_to_string(&annotations).unwrap(), first);
        assert_eq!(fs::read_to_string(&settings).unwrap(), "{}");
    }
}
