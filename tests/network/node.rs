//! Scripts of this folder that play somebody's part: an app with its SDK, a browser.

use std::process::Command;

use serde_json::Value;

use crate::network::repository;

/// Runs a script with an input; what it prints. That it fails is a failed test.
pub async fn node(script: &str, input: &Value) -> String {
    let arguments = [format!("tests/network/{script}"), input.to_string()];
    let run = move || Command::new("node").args(arguments).current_dir(repository()).output();
    let output = tokio::task::spawn_blocking(run).await.unwrap().expect("node starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
