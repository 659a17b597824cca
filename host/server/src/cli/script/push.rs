//! `belvedere script push`: stores the scripts of a folder on a server.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

use super::super::folder::count;
use super::super::remote::Server;
use super::super::{print_error, print_line};
use super::check::{check_all, report_unknown};
use super::files::{self, ScriptFile};
use super::order::Order;
use super::remote::Scripts;
use crate::app::engine_config;
use belvedere_instance::config::Config;
use belvedere_protocol::trigger::Trigger;
use belvedere_scripting::scripts::Engine;

#[derive(Clone, Copy)]
pub(in crate::cli) struct PushOptions {
    pub(in crate::cli) delete: bool,
    pub(in crate::cli) dry_run: bool,
}

enum Step<'a> {
    Create(&'a ScriptFile),
    Update(&'a ScriptFile),
    Delete(String),
}

pub(super) async fn run(
    dir: &Path,
    server: &Server,
    options: PushOptions,
    config: &Config,
) -> anyhow::Result<bool> {
    let engine = Engine::open(engine_config(config)).await?;
    push(dir, server, options, config, &engine).await
}

/// Like [`run`], with an engine that is open already. Returns whether everything was pushed. Prints why not.
///
/// # Errors
/// When the folder can't be read, or the server refuses a script.
pub(in crate::cli) async fn push(
    dir: &Path,
    server: &Server,
    options: PushOptions,
    config: &Config,
    engine: &Engine,
) -> anyhow::Result<bool> {
    let folder = files::read_folder(dir)?;
    // Nothing is sent when one script is not understood or does not load, so that the server never has only a part of a
    // change.
    let unknown = report_unknown(&folder);
    let scripts = folder.scripts;
    let broken = check_all(&scripts, &[], engine).await?;
    if broken > 0 {
        print_error(&format_args!(
            "the server would refuse {}, so nothing was pushed",
            count(broken, "script")
        ));
    } else if unknown > 0 {
        let files = if unknown == 1 { "1 file is".to_owned() } else { format!("{unknown} files are") };
        print_error(&format_args!("{files} not understood, so nothing was pushed"));
    }
    if broken + unknown > 0 {
        return Ok(false);
    }
    let remote = Scripts::of(server, config)?;
    let stored = remote.list().await?.into_iter().map(|script| (script.id, script.body)).collect();
    let steps = plan(&scripts, stored, options.delete);
    for step in &steps {
        let (verb, id) = match step {
            Step::Create(script) => ("created", script.trigger.id()),
            Step::Update(script) => ("updated", script.trigger.id()),
            Step::Delete(id) => ("deleted", id.as_str()),
        };
        if options.dry_run {
            print_line(&format_args!("would be {verb}: {id}"));
            continue;
        }
        match step {
            Step::Create(script) => remote.create(id, &script.source).await,
            Step::Update(script) => remote.update(id, &script.source).await,
            Step::Delete(_) => remote.delete(id).await,
        }
        .map_err(|error| error.context(format!("{id} was not {verb}")))?;
        print_line(&format_args!("{verb}: {id}"));
    }
    let changed = steps.iter().filter(|step| !matches!(step, Step::Delete(_))).count();
    print_line(&format_args!("{} unchanged", count(scripts.len() - changed, "script")));
    Ok(true)
}

/// The steps that make the server's scripts equal to the folder's. Without `delete`, other scripts of the server stay.
fn plan(scripts: &[ScriptFile], mut stored: BTreeMap<String, String>, delete: bool) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    let order = Order::of(scripts.iter().map(|script| (script.trigger.id(), &*script.source)));
    let mut in_order: Vec<&ScriptFile> = scripts.iter().collect();
    in_order.sort_by_key(|script| order.place(script.trigger.id()));
    for script in in_order {
        match stored.remove(script.trigger.id()) {
            None => {
                // The server refuses a view beside a script.
                let in_folder = |other: &Trigger| scripts.iter().any(|script| script.trigger == *other);
                let replaced = script.trigger.counterpart().filter(|other| delete && !in_folder(other));
                let replaced = replaced.and_then(|other| stored.remove_entry(other.id()));
                steps.extend(replaced.map(|(id, _)| Step::Delete(id)));
                steps.push(Step::Create(script));
            }
            Some(body) if body != script.source => steps.push(Step::Update(script)),
            Some(_) => {}
        }
    }
    if delete {
        let order = Order::of(stored.iter().map(|(id, source)| (&**id, &**source)));
        let mut ids: Vec<&String> = stored.keys().collect();
        ids.sort_by_key(|id| Reverse(order.place(id)));
        steps.extend(ids.into_iter().cloned().map(Step::Delete));
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(files: &[&str], stored: &[&str], delete: bool) -> Vec<String> {
        let script = |id: &&str| ScriptFile {
            trigger: Trigger::parse(id).unwrap(),
            path: std::path::PathBuf::new(),
            source: "new".to_owned(),
        };
        let scripts: Vec<_> = files.iter().map(script).collect();
        let stored = stored.iter().map(|id| ((*id).to_owned(), "old".to_owned())).collect();
        let text = |step: &Step<'_>| match step {
            Step::Create(script) => format!("create {}", script.trigger),
            Step::Update(script) => format!("update {}", script.trigger),
            Step::Delete(id) => format!("delete {id}"),
        };
        plan(&scripts, stored, delete).iter().map(text).collect()
    }

    #[test]
    fn libraries_are_stored_before_and_deleted_after_the_scripts_that_require_them() {
        let order = steps(&["job.run:a", "lib:a"], &["lib:b", "xrpc.query:a.b"], true);
        assert_eq!(order, ["create lib:a", "create job.run:a", "delete xrpc.query:a.b", "delete lib:b"]);
    }

    #[test]
    fn a_view_takes_the_place_of_a_script() {
        let (script, view, other) = ("xrpc.query:com.example.a", "xrpc.view:com.example.a", "job.run:old");
        let replaced = steps(&[view], &[script, other], true);
        assert_eq!(
            replaced,
            [format!("delete {script}"), format!("create {view}"), format!("delete {other}")]
        );
        assert_eq!(steps(&[view], &[script, other], false), [format!("create {view}")]);
        // The server refuses a folder with both.
        assert_eq!(
            steps(&[script, view], &[script], true),
            [format!("update {script}"), format!("create {view}")]
        );
    }
}
