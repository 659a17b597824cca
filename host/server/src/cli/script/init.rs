//! `belvedere script init`: writes the annotations and settings with which the Lua language server completes and checks
//! scripts in an editor, and a first test.

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

/// The annotations of the functions of test files.
const TEST_ANNOTATIONS: &str = include_str!("../../../../../guest-lua/test.d.lua");

/// The first test of a folder without tests.
const FIRST_TEST: &str = r#"-- Tests of this folder's scripts. They run with: belvedere script test .
-- library/test.d.lua describes the functions.

test("the time stands still", function()
  given.time("2026-01-31T12:00:00Z")
  expect(now()).matches("^2026%-01%-31T12:00:00")
end)

-- test("lists notes", function()
--   given.record("at://did:plc:alice/com.example.note/1", { text = "hello" })
--   local answer = call.query("com.example.listNotes", { limit = 5 })
--   expect(answer.body.notes[1].text).equals("hello")
-- end)
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
    annotations::write_file(&dir.join("library/test.d.lua"), TEST_ANNOTATIONS)?;
    annotations::write_modules(dir)?;
    if !dir.join("test").exists() && !dir.join("tests").exists() {
        annotations::write_file(&dir.join("test/first.lua"), FIRST_TEST)?;
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
        let module = fs::read_to_string(dir.path().join("library/v3/happyview.db.d.lua")).unwrap();
        assert!(
            module.starts_with("---@meta happyview.db\n") && module.ends_with("\nreturn db\n"),
            "{module}"
        );
        let first_test = dir.path().join("test/first.lua");
        assert_eq!(fs::read_to_string(&first_test).unwrap(), FIRST_TEST);
        fs::remove_file(&first_test).unwrap();
        run(dir.path(), None, &config).await.unwrap();
        assert_eq!(fs::read_to_string(&annotations).unwrap(), first);
        assert_eq!(fs::read_to_string(&settings).unwrap(), "{}");
        assert!(!first_test.exists(), "a folder of tests is left as it is");
    }
}
