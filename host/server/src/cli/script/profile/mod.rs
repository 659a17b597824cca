//! `belvedere script profile`: a dry run of a script on a server, with its instructions, calls of the host, rows and waiting time
//! by line.

mod speedscope;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::remote::{Remote, Server};
use super::super::{print_line, print_stderr};
use super::files;
use super::remote::path;
use crate::api::admin::scripts::profile::ScriptProfile;
use crate::cli::FAILED;
use belvedere_instance::config::Config;
use belvedere_protocol::trigger::{Trigger, TriggerKind};
use belvedere_scripting::scripts::{ProfileCost, ProfileLine, RunProfile, SampledProfile};

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The script, as xrpc.query:com.example.listNotes
    #[arg(value_name = "TRIGGER")]
    trigger: String,
    /// Make no run: print the sum of the server's sampled runs (SCRIPT_PROFILE_SAMPLE)
    #[arg(long, conflicts_with_all = ["body", "params", "input", "caller", "event", "network"])]
    sampled: bool,
    /// Run this file instead of the stored script
    #[arg(long, value_name = "FILE")]
    body: Option<PathBuf>,
    /// The parameters of a method, as a JSON object
    #[arg(long, value_name = "JSON", value_parser = parse_object)]
    params: Option<Map<String, Value>>,
    /// The input of a procedure or a job, as JSON
    #[arg(long, value_name = "JSON", value_parser = parse_json)]
    input: Option<Value>,
    /// The account that calls
    #[arg(long = "as", value_name = "DID")]
    caller: Option<String>,
    /// The event of a record or a label, as `event` of POST /admin/scripts/dry-run
    #[arg(long, value_name = "JSON", value_parser = parse_json, conflicts_with_all = ["params", "input", "caller"])]
    event: Option<Value>,
    /// Let the script read from other servers
    #[arg(long)]
    network: bool,
    /// Also write the profile in speedscope's format
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Lines that are printed, those with the most instructions
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    lines: usize,
    #[command(flatten)]
    server: Server,
}

fn parse_json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))
}

fn parse_object(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text).map_err(|error| format!("not a JSON object: {error}"))
}

/// The parts of a dry run's answer that are shown.
#[derive(Deserialize)]
struct Answer {
    usage: Usage,
    error: Option<Failure>,
    profile: Option<RunProfile>,
}

#[derive(Deserialize)]
struct Usage {
    cpu_ms: f64,
}

#[derive(Deserialize)]
struct Failure {
    message: String,
    line: Option<u32>,
}

/// Exit status 0 when there is a profile: of a run, also if it failed (the failure is printed), or of sampled runs.
pub(super) async fn run(options: &Options, config: &Config) -> anyhow::Result<ExitCode> {
    let trigger = Trigger::parse(&options.trigger)?;
    if options.sampled {
        return options.print_sampled(&trigger, config).await;
    }
    let body = options.body.as_deref().map(files::read).transpose()?;
    let request = json!({
        "id": trigger.id(), "body": body, "network": options.network, "profile": true,
        "event": options.event_of(&trigger)?,
    });
    let remote = Remote::new(&options.server, "scripts:manage", config)?;
    let answer: Answer = remote.post("/admin/scripts/dry-run", &request).await?;
    if let Some(Failure { message, line }) = &answer.error {
        let line = line.map(|line| format!("line {line}: ")).unwrap_or_default();
        print_stderr(&format_args!("the script failed: {line}{message}"));
    }
    let Some(profile) = &answer.profile else {
        print_stderr(&"there is no profile: the script did not run, it is a view, or the server is older");
        return Ok(ExitCode::from(FAILED));
    };
    options.print(&trigger, profile, answer.usage.cpu_ms * 1e3)
}

impl Options {
    /// Prints a profile, and writes the file. `cpu_us`: the microseconds that its runs computed.
    fn print(&self, trigger: &Trigger, profile: &RunProfile, cpu_us: f64) -> anyhow::Result<ExitCode> {
        for line in table(profile, self.lines) {
            print_line(&line);
        }
        if let Some(path) = &self.out {
            let text = serde_json::to_vec(&speedscope::file(trigger.id(), profile, cpu_us))?;
            fs::write(path, text).with_context(|| format!("{} can't be written", path.display()))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn print_sampled(&self, trigger: &Trigger, config: &Config) -> anyhow::Result<ExitCode> {
        let remote = Remote::new(&self.server, "scripts:read", config)?;
        let ScriptProfile { sample, sampled } =
            remote.get(&format!("{}/profile", path(trigger.id()))).await?;
        let Some(SampledProfile { runs, since, profile }) = sampled else {
            print_stderr(&match sample {
                0 => "the server samples no runs: SCRIPT_PROFILE_SAMPLE sets how many".to_owned(),
                _ => format!("no run was sampled yet: one of {sample} is, since the script was loaded"),
            });
            return Ok(ExitCode::from(FAILED));
        };
        print_line(&format_args!("{runs} sampled runs since {since}, of which one in {sample} is"));
        // The computing time of sampled runs is not counted.
        self.print(trigger, &profile, 0.0)
    }

    fn event_of(&self, trigger: &Trigger) -> anyhow::Result<Value> {
        if let Some(event) = &self.event {
            return Ok(event.clone());
        }
        let (params, input, caller) = (&self.params, &self.input, &self.caller);
        Ok(match trigger.kind() {
            TriggerKind::Query | TriggerKind::Procedure | TriggerKind::View => {
                json!({ "type": "request", "params": params, "input": input, "caller_did": caller })
            }
            TriggerKind::JobRun | TriggerKind::Schedule => {
                json!({ "type": "job", "input": input, "caller_did": caller })
            }
            TriggerKind::Setup => json!({ "type": "setup" }),
            TriggerKind::Subscription => bail!(
                "{trigger} runs on a change: give one with --event, such as {}",
                r#"'{"type":"change","uri":"at://did:plc:alice/com.example.note/1"}'"#
            ),
            _ => bail!(
                "{trigger} runs on an event: give one with --event, such as {}",
                r#"'{"type":"record","uri":"at://did:plc:alice/com.example.note/1"}'"#
            ),
        })
    }
}

/// The lines with the most instructions, and the sum of all.
fn table(profile: &RunProfile, max: usize) -> Vec<String> {
    let mut lines: Vec<&ProfileLine> = profile.lines.iter().collect();
    lines.sort_by_key(|line| std::cmp::Reverse((line.cost.instructions, line.cost.host_us)));
    let total = profile.total();
    let row = |cost: &ProfileCost, name: &str| {
        format!(
            "{:>12} {:>6.1} {:>11} {:>8} {:>10.3}  {name}",
            cost.instructions,
            cost.instructions as f64 * 100.0 / total.instructions.max(1) as f64,
            cost.host_calls,
            cost.rows,
            cost.host_us as f64 / 1e3,
        )
    };
    let head = format!(
        "{:>12} {:>6} {:>11} {:>8} {:>10}  line",
        "instructions", "%", "host calls", "rows", "host ms"
    );
    let shown = lines.iter().take(max).map(|line| row(&line.cost, &format!("{}:{}", line.file, line.line)));
    [head].into_iter().chain(shown).chain([row(&total, "all lines")]).collect()
}
