//! Scripts of a server call the functions of its plugins, and `belvedere script init` describes them.

use std::fs;

use belvedere_standins::database::Database;
use belvedere_standins::plugins::built;
use serde_json::json;

use crate::support::instance::{Instance, query_lexicon};

const SCRIPT: &str = "
function handle()
  local _, missing = pcall(plugin.not_installed.f)
  return { html = plugin.markdown.render(params.text), caller = plugin.minimal.caller(), missing = missing.code }
end";

async fn scripts_call_plugins(database: Database) {
    let folder = tempfile::tempdir().unwrap();
    for name in ["markdown", "minimal"] {
        let (plugin, files) = (folder.path().join(name), built(name));
        fs::create_dir(&plugin).unwrap();
        fs::write(plugin.join("manifest.json"), &files.manifest).unwrap();
        fs::write(plugin.join("plugin.wasm"), &files.module).unwrap();
    }
    let plugins = folder.path().display().to_string();
    let server = Instance::start_with(&database.url, "none", &[("PLUGIN_DIR", &plugins)]).await;
    server.upload(query_lexicon("com.example.rendered"), None).await;
    server.bind("com.example.rendered", SCRIPT).await;
    let answer = server.xrpc("com.example.rendered?text=*hi*").await;
    let caller = json!({ "caller": null, "hasSession": false });
    let expected = json!({ "html": "<p><em>hi</em></p>\n", "caller": caller, "missing": "bad-input" });
    assert_eq!(answer.body, expected, "{}", answer.text);

    let scripts = folder.path().join("scripts").display().to_string();
    let url = format!("http://{}", server.address);
    let output = server.run(&["script", "init", &scripts, "--url", &url, "--key", &server.admin_key]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let annotations = fs::read_to_string(folder.path().join("scripts/library/belvedere.d.lua")).unwrap();
    for described in [
        "---@param text string\n---@param options? {breaks?: boolean, images?: boolean}\n---@return any\n\
         plugin.markdown.render = function(text, options) end\n",
        "plugin.minimal.echo = function(...) end\n",
    ] {
        assert!(annotations.contains(described), "{annotations}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_call_plugins_on_sqlite() {
    scripts_call_plugins(Database::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_call_plugins_on_postgres() {
    scripts_call_plugins(Database::postgres().await).await;
}
