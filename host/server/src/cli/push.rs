//! `belvedere push`: stores an app on a server, as one version.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;

use super::app_folder::AppFolder;
use super::push_options::PushOptions;
use super::remote::Server;
use super::{lexicon, print_line, print_stderr, script, status};
use crate::app::engine_config;
use belvedere_instance::config::Config;
use belvedere_scripting::scripts::Engine;

#[derive(Args, Debug)]
pub(super) struct Command {
    /// The folder of the app, with lexicons/, scripts/ (or the folders of the triggers themselves) and app.json
    #[arg(value_name = "APP")]
    dir: PathBuf,
    #[command(flatten)]
    server: Server,
    #[command(flatten)]
    options: PushOptions,
    /// Don't ask before it is changed, as a terminal does
    #[arg(long)]
    yes: bool,
    /// Don't run the tests of the scripts before
    #[arg(long)]
    no_tests: bool,
    /// Start no backfills of new record lexicons
    #[arg(long)]
    no_backfill: bool,
}

pub(super) async fn run(command: Command, config: &Config) -> anyhow::Result<ExitCode> {
    Box::pin(push(&command, config)).await.map(status)
}

/// Whether the server has the app. Prints why not.
async fn push(command: &Command, config: &Config) -> anyhow::Result<bool> {
    let app = AppFolder(command.dir.clone());
    let engine = Engine::open(engine_config(config)).await?;
    let Some(lexicons) = app.read_lexicons()? else { return Ok(false) };
    let Some(scripts) = app.read_scripts(&engine).await? else { return Ok(false) };
    if !command.no_tests && !script::passes(&app.scripts(), app.lexicons().as_deref(), config).await? {
        print_stderr(&"a test failed, so nothing was pushed");
        return Ok(false);
    }
    let parts = lexicons.with(scripts);
    if parts.is_empty() {
        bail!("{} has neither lexicons nor scripts, so nothing was pushed", command.dir.display());
    }
    let backfill = !command.no_backfill;
    if let Some(uploads) = parts.uploads(backfill)?
        && !lexicon::preview(&uploads, &command.server, config).await?
    {
        return Ok(false);
    }
    let look = PushOptions { dry_run: true, ..command.options };
    let planned = parts.push(look, backfill, &command.server, config).await?;
    planned.print("would be ");
    if planned.is_empty() || command.options.dry_run {
        return Ok(true);
    }
    if !command.yes && !agrees()? {
        print_stderr(&"nothing was pushed");
        return Ok(false);
    }
    let pushed = parts.push(command.options, backfill, &command.server, config).await?;
    print_line(&"pushed, as one version:");
    pushed.print("");
    lexicon::print_saved(pushed.lexicons);
    Ok(true)
}

/// Asks the operator at the terminal, and returns whether the answer is yes: also without a terminal.
fn agrees() -> std::io::Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Ok(true);
    }
    let mut terminal = std::io::stderr();
    write!(terminal, "Push? [y/N] ")?;
    terminal.flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
