//! Runs the node scripts of this folder, which act as an app that uses an SDK, or as a browser.

use std::process::Command;

use serde_json::Value;

use crate::network::repository;

/// Runs a script with an input. Returns its standard output; panics if the script fails.
pub async fn node(script: &str, input: &Value) -> String {
    let arguments = [format!("tests/network/{script}"), input.to_string()];
    let run = move || Command::new("node").args(arguments).current_dir(repository()).output();
    let output = tokio::task::spawn_blocking(run).await.unwrap().expect("node starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
