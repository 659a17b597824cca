//! `belvedere script check`: what saving the script would say.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::super::{report, say};
use super::files::{self, ScriptFile};
use crate::app::engine_config;
use crate::cli::FAILED;
use crate::config::Config;
use crate::scripts::{Engine, ScriptFailure};
use crate::trigger::Trigger;

/// The name under which a file is loaded whose path is no trigger.
const LOOSE: &str = "xrpc.query:loose.file";

pub(super) async fn run(paths: &[PathBuf], config: &Config) -> anyhow::Result<ExitCode> {
    let mut scripts = Vec::new();
    for path in paths {
        if path.is_dir() {
            scripts.extend(files::read_folder(path)?);
        } else {
            let trigger = files::trigger_of(path).or_else(|| Trigger::parse(LOOSE).ok());
            let Some(trigger) = trigger else { continue };
            scripts.push(ScriptFile { source: files::read(path)?, path: path.clone(), trigger });
        }
    }
    let broken = check_all(&scripts, config).await?;
    if broken > 0 {
        return Ok(ExitCode::from(FAILED));
    }
    say(&format_args!("{} loaded", count(scripts.len())));
    Ok(ExitCode::SUCCESS)
}

/// Loads every script in a bare sandbox, prints what is wrong, and gives how many don't load.
pub(super) async fn check_all(scripts: &[ScriptFile], config: &Config) -> anyhow::Result<usize> {
    let engine = Engine::open(engine_config(config)).await?;
    let mut broken = 0;
    for script in scripts {
        if let Err(failure) = engine.check(script.trigger.clone(), &script.source).await {
            broken += 1;
            report(&located(&script.path, &script.trigger, &failure));
        }
    }
    Ok(broken)
}

pub(super) fn count(scripts: usize) -> String {
    if scripts == 1 { "1 script".to_owned() } else { format!("{scripts} scripts") }
}

/// `FILE:LINE: message`, as editors and terminals know how to open.
fn located(path: &Path, trigger: &Trigger, failure: &ScriptFailure) -> String {
    let message = &failure.message;
    let place = message.strip_prefix(trigger.id()).and_then(|rest| rest.strip_prefix(':'));
    match (place, failure.line) {
        (Some(rest), _) => format!("{}:{rest}", path.display()),
        (None, Some(line)) => format!("{}:{line}: {message}", path.display()),
        (None, None) => format!("{}: {message}", path.display()),
    }
}
