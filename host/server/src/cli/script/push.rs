//! `belvedere script push`: stores the scripts of a folder on a server.

use std::path::Path;

use super::super::folder::count;
use super::super::print_error;
use super::super::push_options::PushOptions;
use super::super::push_request::{self, PushRequest, ScriptToPush};
use super::super::remote::Server;
use super::check::{check_all, report_unknown};
use super::files::{self, ScriptFile};
use crate::app::engine_config;
use belvedere_instance::config::Config;
use belvedere_scripting::scripts::Engine;

/// Whether everything was pushed. Prints why not.
///
/// # Errors
/// When the folder can't be read, or the server refuses a script.
pub(super) async fn run(
    dir: &Path,
    server: &Server,
    PushOptions { delete: delete_others, dry_run }: PushOptions,
    config: &Config,
) -> anyhow::Result<bool> {
    let engine = Engine::open(engine_config(config)).await?;
    let Some(folder) = read(dir, &engine).await? else { return Ok(false) };
    let scripts = folder.to_push();
    let request = PushRequest { scripts: Some(&scripts), delete_others, dry_run, ..PushRequest::default() };
    let pushed = push_request::send(&request, server, config).await?;
    pushed.print(if dry_run { "would be " } else { "" });
    Ok(true)
}

/// The scripts of a folder that load.
pub(in crate::cli) struct LoadedFolder(Vec<ScriptFile>);

/// Reads a folder of scripts, and loads them as the server will. `None` when one is not understood or does not load: it prints why.
///
/// # Errors
/// When the folder can't be read.
pub(in crate::cli) async fn read(dir: &Path, engine: &Engine) -> anyhow::Result<Option<LoadedFolder>> {
    let folder = files::read_folder(dir)?;
    let unknown = report_unknown(&folder);
    let broken = check_all(&folder.scripts, &[], engine).await?;
    if broken > 0 {
        print_error(&format_args!(
            "the server would refuse {}, so nothing was pushed",
            count(broken, "script")
        ));
    } else if unknown > 0 {
        let files = if unknown == 1 { "1 file is".to_owned() } else { format!("{unknown} files are") };
        print_error(&format_args!("{files} not understood, so nothing was pushed"));
    }
    Ok((broken + unknown == 0).then_some(LoadedFolder(folder.scripts)))
}

/// The ids and bodies of the scripts of a folder, which are not loaded.
///
/// # Errors
/// When the folder can't be read.
pub(in crate::cli) fn bodies(dir: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let scripts = files::read_folder(dir)?.scripts.into_iter();
    Ok(scripts.map(|script| (script.trigger.id().to_owned(), script.source)).collect())
}

impl LoadedFolder {
    pub(in crate::cli) fn to_push(&self) -> Vec<ScriptToPush<'_>> {
        self.0.iter().map(|script| ScriptToPush { id: script.trigger.id(), body: &script.source }).collect()
    }
}
