//! `belvedere script record` and `belvedere script replay`: record runs of a server's script, and run a body on them.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use http::Method;
use serde_json::{Value, json};

use super::super::print_line;
use super::super::remote::{Remote, Server};
use super::remote::path;
use belvedere_instance::config::Config;
use belvedere_protocol::trigger::Trigger;

#[derive(Args, Debug)]
pub(in crate::cli) struct RecordOptions {
    /// The script, as xrpc.query:com.example.listNotes
    #[arg(value_name = "TRIGGER")]
    trigger: String,
    /// Percent of its runs
    #[arg(long, value_name = "PERCENT", default_value_t = 100)]
    percent: u8,
    /// Minutes until the recording ends, at most a week
    #[arg(long, value_name = "MINUTES", default_value_t = 60)]
    minutes: u32,
    /// End the recording and remove its runs
    #[arg(long, conflicts_with_all = ["percent", "minutes"])]
    delete: bool,
    #[command(flatten)]
    server: Server,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct ReplayOptions {
    /// The script, as xrpc.query:com.example.listNotes
    #[arg(value_name = "TRIGGER")]
    trigger: String,
    /// The Lua file to run [default: the saved body]
    #[arg(long, value_name = "FILE")]
    body: Option<PathBuf>,
    /// The newest runs that are replayed
    #[arg(long, value_name = "RUNS", default_value_t = 1_000)]
    runs: u32,
    #[command(flatten)]
    server: Server,
}

pub(super) async fn record(options: &RecordOptions, config: &Config) -> anyhow::Result<ExitCode> {
    let trigger = Trigger::parse(&options.trigger)?;
    let remote = Remote::new(&options.server, "scripts:read and scripts:manage", config)?;
    let path = format!("{}/recording", path(trigger.id()));
    if options.delete {
        remote.send(Method::DELETE, &path, None).await?;
        print_line(&format_args!("{trigger}: the recording was removed"));
        return Ok(ExitCode::SUCCESS);
    }
    let request = json!({ "percent": options.percent, "minutes": options.minutes });
    remote.send(Method::PUT, &path, Some(request)).await?;
    let recording: Value = remote.get(&path).await?;
    let until = recording["until"].as_str().unwrap_or_default();
    print_line(&format_args!("{trigger}: {} % of runs until {until}", options.percent));
    Ok(ExitCode::SUCCESS)
}

/// Exit status 0 when every run is identical, else 1.
pub(super) async fn replay(options: &ReplayOptions, config: &Config) -> anyhow::Result<ExitCode> {
    let trigger = Trigger::parse(&options.trigger)?;
    let remote = Remote::new(&options.server, "scripts:manage", config)?;
    let mut request = json!({ "runs": options.runs });
    if let Some(file) = &options.body {
        let body = fs::read_to_string(file).with_context(|| format!("can't read {}", file.display()))?;
        request["body"] = body.into();
    }
    let report: Value = remote.post(&format!("{}/replay", path(trigger.id())), &request).await?;
    print_line(&format_args!("{}", summary(&report)));
    let is_same = report["identical"] == report["runs"];
    Ok(if is_same { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A line for all runs, and one for each group of differences.
fn summary(report: &Value) -> String {
    let number = |name: &str| report[name].as_u64().map_or("-".to_owned(), |number| number.to_string());
    let mut lines = vec![format!(
        "{} runs in {} ms: {} identical, {} skipped; {} instructions each, recorded {}",
        number("runs"),
        number("took_ms"),
        number("identical"),
        number("skipped"),
        number("instructions"),
        number("recorded_instructions")
    )];
    for group in report["differences"].as_array().into_iter().flatten() {
        let text = |name: &str| group[name].as_str().unwrap_or_default();
        let place = text("place");
        let what = match text("kind") {
            "answer" if place.is_empty() => "other answer".to_owned(),
            "answer" => format!("other answer at {place}"),
            "error" => "other error".to_owned(),
            "asked" => format!("asked for {place}"),
            _ => format!("did not ask for {place}"),
        };
        let write = if group["is_write"] == true { " (a write)" } else { "" };
        let runs = group["runs"].as_u64().unwrap_or_default();
        lines.push(format!("{runs:>7}  {what}{write}: {}", text("example")));
    }
    if report["is_complete"] == false {
        lines.push("not all runs were replayed: it took too long".to_owned());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_of_differences_has_a_line() {
        let report = json!({ "runs": 9, "identical": 7, "skipped": 0, "took_ms": 4, "instructions": 10,
            "recorded_instructions": null, "differences": [
                { "kind": "asked", "place": "repo.save", "is_write": true, "runs": 2, "example": "com.example.note" }] });
        let text = summary(&report);
        assert!(
            text.starts_with("9 runs in 4 ms: 7 identical, 0 skipped; 10 instructions each, recorded -"),
            "{text}"
        );
        assert!(text.contains("      2  asked for repo.save (a write): com.example.note"), "{text}");
    }
}
