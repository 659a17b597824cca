//! `belvedere script check`: loads scripts as the server would when they are saved, and prints the errors.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::super::folder::count;
use super::super::{print_line, print_stderr};
use super::files::{self, Folder, ScriptFile};
use crate::app::engine_config;
use crate::cli::FAILED;
use belvedere_instance::config::Config;
use belvedere_protocol::trigger::{Trigger, TriggerKind};
use belvedere_scripting::scripts::{Engine, ScriptFailure, ScriptRegistry};
use belvedere_scripting::views;

/// The trigger under which a file is loaded whose path is not one.
const PLACEHOLDER_TRIGGER: &str = "xrpc.query:loose.file";

pub(super) async fn run(paths: &[PathBuf], config: &Config) -> anyhow::Result<ExitCode> {
    let mut scripts = Vec::new();
    let mut library_folders = BTreeSet::new();
    let mut unknown = 0;
    for path in paths {
        if path.is_dir() {
            let folder = files::read_folder(path)?;
            unknown += report_unknown(&folder);
            scripts.extend(folder.scripts);
        } else {
            let trigger = files::trigger_of(path).or_else(|| Trigger::parse(PLACEHOLDER_TRIGGER).ok());
            let Some(trigger) = trigger else { continue };
            library_folders.extend(files::library_folder(path));
            scripts.push(ScriptFile { source: files::read(path)?, path: path.clone(), trigger });
        }
    }
    let mut libraries = Vec::new();
    for folder in &library_folders {
        libraries.extend(files::read_libraries(folder)?);
    }
    let engine = Engine::open(engine_config(config)).await?;
    let broken = check_all(&scripts, &libraries, &engine).await?;
    if broken + unknown > 0 {
        return Ok(ExitCode::from(FAILED));
    }
    print_line(&format_args!("{} loaded", count(scripts.len(), "script")));
    Ok(ExitCode::SUCCESS)
}

/// Prints the files of a folder that are not understood. Returns how many there are.
pub(super) fn report_unknown(folder: &Folder) -> usize {
    for file in &folder.unknown {
        print_stderr(file);
    }
    folder.unknown.len()
}

/// Loads every script in an empty sandbox, compiles every view, and prints the errors. Returns how many scripts don't load. They
/// may require each other's libraries and `libraries`.
pub(super) async fn check_all(
    scripts: &[ScriptFile],
    libraries: &[ScriptFile],
    engine: &Engine,
) -> anyhow::Result<usize> {
    let registry = ScriptRegistry::new();
    let sources = libraries.iter().chain(scripts);
    let sources: Vec<_> =
        sources.map(|script| (script.trigger.id().to_owned(), script.source.clone())).collect();
    registry.replace(engine, &sources).await;
    let all = registry.all();
    let mut broken = 0;
    for script in scripts {
        if script.trigger.kind() == TriggerKind::View {
            // The server compares it with the lexicon of its method when it is saved.
            if let Err(offences) = views::compile(&script.source) {
                broken += 1;
                print_stderr(&format_args!("{}: {offences}", script.path.display()));
            }
            continue;
        }
        match engine.check(script.trigger.clone(), &script.source, &all).await {
            Ok(checked) => {
                for unknown in &checked.unknown_names {
                    let path = script.path.display();
                    print_stderr(&format_args!("{path}:{}: warning: {unknown}", unknown.line));
                }
            }
            Err(failure) => {
                broken += 1;
                print_stderr(&with_location(&script.path, &script.trigger, &failure));
            }
        }
    }
    Ok(broken)
}

/// The error as `FILE:LINE: message`, the form that editors and terminals can open.
fn with_location(path: &Path, trigger: &Trigger, failure: &ScriptFailure) -> String {
    let message = &failure.message;
    let after_trigger = message.strip_prefix(trigger.id()).and_then(|rest| rest.strip_prefix(':'));
    match (after_trigger, failure.line) {
        (Some(rest), _) => format!("{}:{rest}", path.display()),
        (None, Some(line)) => format!("{}:{line}: {message}", path.display()),
        (None, None) => format!("{}: {message}", path.display()),
    }
}
