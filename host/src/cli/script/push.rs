//! `belvedere script push`: the folder's scripts become the server's.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use super::super::{complain, say};
use super::Server;
use super::check::{check_all, count};
use super::files::{self, ScriptFile};
use super::remote::Remote;
use crate::cli::FAILED;
use crate::config::Config;

#[derive(Clone, Copy)]
pub(super) struct How {
    pub(super) delete: bool,
    pub(super) dry_run: bool,
}

enum Step<'a> {
    Create(&'a ScriptFile),
    Update(&'a ScriptFile),
    Delete(String),
}

pub(super) async fn run(dir: &Path, server: &Server, how: How, config: &Config) -> anyhow::Result<ExitCode> {
    let scripts = files::read_folder(dir)?;
    // Nothing is sent while one of them does not load: half a change is worse than none.
    let broken = check_all(&scripts, config).await?;
    if broken > 0 {
        complain(&format_args!("{} would be refused, so nothing was pushed", count(broken)));
        return Ok(ExitCode::from(FAILED));
    }
    let remote = Remote::new(server, config)?;
    let stored = remote.list().await?.into_iter().map(|script| (script.id, script.body)).collect();
    let steps = plan(&scripts, stored, how.delete);
    for step in &steps {
        let (verb, id) = match step {
            Step::Create(script) => ("created", script.trigger.id()),
            Step::Update(script) => ("updated", script.trigger.id()),
            Step::Delete(id) => ("deleted", id.as_str()),
        };
        if how.dry_run {
            say(&format_args!("would be {verb}: {id}"));
            continue;
        }
        match step {
            Step::Create(script) => remote.create(id, &script.source).await,
            Step::Update(script) => remote.update(id, &script.source).await,
            Step::Delete(_) => remote.delete(id).await,
        }
        .map_err(|error| error.context(format!("{id} was not {verb}")))?;
        say(&format_args!("{verb}: {id}"));
    }
    let touched = steps.iter().filter(|step| !matches!(step, Step::Delete(_))).count();
    say(&format_args!("{} unchanged", count(scripts.len() - touched)));
    Ok(ExitCode::SUCCESS)
}

/// What makes the server's scripts those of the folder. Without `delete` the server's others stay.
fn plan(scripts: &[ScriptFile], mut stored: BTreeMap<String, String>, delete: bool) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    for script in scripts {
        match stored.remove(script.trigger.id()) {
            None => steps.push(Step::Create(script)),
            Some(body) if body != script.source => steps.push(Step::Update(script)),
            Some(_) => {}
        }
    }
    if delete {
        steps.extend(stored.into_keys().map(Step::Delete));
    }
    steps
}
