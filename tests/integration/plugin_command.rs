//! `belvedere plugin`, which needs no server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs the command in a folder, with nothing of the environment.
fn run(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_belvedere"))
        .env_clear()
        .env("DATA_DIR", folder.join("data"))
        .current_dir(folder)
        .arg("plugin")
        .args(args)
        .output()
        .unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The folder of a built plugin.
fn built(name: &str) -> PathBuf {
    let folder = std::env::current_exe().unwrap().ancestors().nth(3).unwrap().join("plugins").join(name);
    assert!(folder.join("plugin.wasm").exists(), "build the plugins: sh dev/plugins.sh");
    folder
}

/// A copy of a built plugin that a test may change.
fn copy(name: &str, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in ["manifest.json", "plugin.wasm"] {
        fs::copy(built(name).join(file), to.join(file)).unwrap();
    }
}

#[test]
fn check_prints_what_a_plugin_asks_for() {
    let folder = tempfile::tempdir().unwrap();
    copy("steam", &folder.path().join("steam"));
    let output = run(folder.path(), &["check", "steam"]);
    assert!(output.status.success(), "{}", err(&output));
    let text = out(&output);
    for line in [
        "steam 1.0.0: Steam",
        "  may send GET requests to api.steampowered.com (medium risk: \
         network:request?host=api.steampowered.com&method=GET)",
        "  may write dev.games.actor.stats to the repo of a linked user (high risk: \
         records:write?collection=dev.games.actor.stats)",
        "needs the secret PLUGIN_STEAM_API_KEY: Steam Web API key",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let cache = fs::read_dir(folder.path().join("data/cache")).unwrap();
    let left: Vec<_> = cache.map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("plugin-check")), "{left:?}");

    copy("markdown", &folder.path().join("markdown"));
    let text = out(&run(folder.path(), &["check", "markdown"]));
    assert!(text.contains("asks for nothing") && text.contains("offers to_text(text: string)"), "{text}");
}

#[test]
fn check_names_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = folder.path().join("minimal");
    let refused = |expected: &str| {
        let output = run(folder.path(), &["check", "minimal"]);
        assert_eq!(output.status.code(), Some(1), "{}", out(&output));
        assert!(err(&output).contains(expected), "{expected}: {}", err(&output));
    };
    refused("manifest.json can't be read");
    copy("minimal", &plugin);
    let manifest = fs::read_to_string(plugin.join("manifest.json")).unwrap();
    fs::write(plugin.join("manifest.json"), manifest.replace("1.0.0", "1.0.1")).unwrap();
    refused("describes itself with \"1.0.0\"");
    fs::write(plugin.join("manifest.json"), "{").unwrap();
    refused("manifest.json:");
    fs::write(plugin.join("manifest.json"), manifest).unwrap();
    fs::write(plugin.join("plugin.wasm"), b"\0asm\x01\0\0\0").unwrap();
    refused("belvedere plugin pack");
    fs::remove_file(plugin.join("plugin.wasm")).unwrap();
    refused("plugin.wasm can't be read");
}

#[test]
fn pack_writes_only_components() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("text.wasm"), "text").unwrap();
    let output = run(folder.path(), &["pack", "text.wasm"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        err(&output).contains("text.wasm") && err(&output).contains("no WebAssembly"),
        "{}",
        err(&output)
    );
    assert!(!folder.path().join("plugin.wasm").exists());
    let component = built("minimal").join("plugin.wasm");
    let output = run(folder.path(), &["pack", component.to_str().unwrap(), "-o", "out.wasm"]);
    assert!(output.status.success(), "{}", err(&output));
    assert_eq!(fs::read(folder.path().join("out.wasm")).unwrap(), fs::read(component).unwrap());
}

#[test]
fn new_writes_a_folder_once() {
    let folder = tempfile::tempdir().unwrap();
    for kind in ["account", "sync", "library"] {
        let output = run(folder.path(), &["new", &format!("my-{kind}"), "--kind", kind]);
        assert!(output.status.success(), "{}", err(&output));
        for file in
            ["manifest.json", "src/lib.rs", "crates/sdk/src/lib.rs", "wit/plugin/worlds.wit", "README.md"]
        {
            assert!(folder.path().join(format!("my-{kind}")).join(file).exists(), "{kind}: {file}");
        }
    }
    let output = run(folder.path(), &["new", "my-sync"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("my-sync exists"), "{}", err(&output));
    let output = run(folder.path(), &["new", "My Plugin"]);
    assert!(err(&output).contains("lower-case"), "{}", err(&output));
}
