//! `belvedere script rollout`: lets a part of a script's callers run another body.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use http::Method;
use serde_json::{Map, Value, json};

use super::super::print_line;
use super::super::remote::{Remote, Server};
use super::remote::path;
use belvedere_instance::config::Config;
use belvedere_protocol::trigger::Trigger;

#[derive(Args, Debug)]
pub(in crate::cli) struct Options {
    /// The script, as xrpc.query:com.example.listNotes
    #[arg(value_name = "TRIGGER")]
    trigger: String,
    /// Start a rollout of this Lua file [default: change the one that goes on]
    #[arg(long, value_name = "FILE", requires = "percent")]
    body: Option<PathBuf>,
    /// Percent of callers that run the new body, 1 to 100; without it the command prints how both versions compare
    #[arg(long, value_name = "PERCENT")]
    percent: Option<u8>,
    /// Runs of the new body before it is compared [default: 100]
    #[arg(long, value_name = "RUNS", requires = "percent")]
    min_runs: Option<u32>,
    /// Percentage points by which its failures may exceed those of the saved one; above it is returned [default: 5]
    #[arg(long, value_name = "POINTS", requires = "percent")]
    max_errors: Option<u8>,
    /// Percent of the mean time of the saved one that it may take; above it is returned; 0: any [default: 200]
    #[arg(long, value_name = "PERCENT", requires = "percent")]
    max_time: Option<u32>,
    /// Percent of the mean instructions of the saved one; above it is returned; 0: any [default: 0]
    #[arg(long, value_name = "PERCENT", requires = "percent")]
    max_instructions: Option<u32>,
    /// Save the new body as the script's
    #[arg(long, conflicts_with_all = ["percent", "return_it"])]
    promote: bool,
    /// Let all callers run the saved body again
    #[arg(long = "return", conflicts_with = "percent")]
    return_it: bool,
    #[command(flatten)]
    server: Server,
}

pub(super) async fn run(options: &Options, config: &Config) -> anyhow::Result<ExitCode> {
    let trigger = Trigger::parse(&options.trigger)?;
    let remote = Remote::new(&options.server, "scripts:read and scripts:manage", config)?;
    let path = format!("{}/rollout", path(trigger.id()));
    if options.promote {
        remote.send(Method::POST, &format!("{path}/promote"), None).await?;
    } else if options.return_it {
        remote.send(Method::DELETE, &path, None).await?;
    } else if let Some(terms) = terms(options)? {
        let method = if options.body.is_some() { Method::POST } else { Method::PUT };
        remote.send(method, &path, Some(terms)).await?;
    }
    let rollout: Value = remote.get(&path).await?;
    print_line(&format_args!("{}", summary(&rollout)));
    Ok(ExitCode::SUCCESS)
}

/// The body of the request that starts or changes a rollout; `None` when it is only shown.
fn terms(options: &Options) -> anyhow::Result<Option<Value>> {
    let Some(percent) = options.percent else { return Ok(None) };
    let mut terms = Map::new();
    terms.insert("percent".to_owned(), percent.into());
    let given = [
        ("min_runs", options.min_runs),
        ("max_errors", options.max_errors.map(u32::from)),
        ("max_time", options.max_time),
        ("max_instructions", options.max_instructions),
    ];
    terms.extend(given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value?)))));
    if let Some(file) = &options.body {
        let body = fs::read_to_string(file).with_context(|| format!("can't read {}", file.display()))?;
        terms.insert("body".to_owned(), body.into());
    }
    Ok(Some(terms.into()))
}

/// The state of a rollout, and a line for each version.
fn summary(rollout: &Value) -> String {
    let text = |value: &Value| match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => format!("{:.3}", number.as_f64().unwrap_or_default()),
        other => other.to_string(),
    };
    let state = text(&rollout["state"]);
    let reason = rollout["reason"].as_str().map(|reason| format!(": {reason}")).unwrap_or_default();
    let state = format!("{}: {state}, {} % of callers{reason}", text(&rollout["id"]), rollout["percent"]);
    let line = |version: &str, name: &str| {
        let runs = &rollout[version];
        format!(
            "{name:>9}: {} runs, {} failed, {} ms, {} instructions each",
            text(&runs["runs"]),
            text(&runs["failures"]),
            text(&runs["mean_ms"]),
            text(&runs["mean_instructions"])
        )
    };
    [state, line("current", "saved"), line("candidate", "new")].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_compared_line_by_line() {
        let runs = json!({ "runs": 10, "failures": 1, "mean_ms": 1.5, "mean_instructions": null });
        let rollout = json!({ "id": "job.run:x", "state": "returned", "percent": 10, "reason": "slow",
            "current": runs, "candidate": runs });
        let lines: Vec<_> = summary(&rollout).lines().map(str::to_owned).collect();
        assert_eq!(lines[0], "job.run:x: returned, 10 % of callers: slow");
        assert_eq!(lines[1], "    saved: 10 runs, 1 failed, 1.500 ms, - instructions each");
        assert_eq!(lines.len(), 3);
    }
}
