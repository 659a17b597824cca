//! Calls `POST /admin/push` of a server, and prints what it changed.

use serde::{Deserialize, Serialize};

use super::folder::count;
use super::lexicon::{Change, SavedLexicon, Upload};
use super::remote::{Remote, Server};
use super::{print_line, print_stderr};
use belvedere_instance::config::Config;

/// The parts of an app. A part that is `None` stays as it is on the server.
#[derive(Default, Serialize)]
pub(super) struct PushRequest<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lexicons: Option<&'a [Upload<'a>]>,
    /// Settings that an upload does not have stay as they are.
    pub(super) keep_settings: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) scripts: Option<&'a [ScriptToPush<'a>]>,
    pub(super) delete_others: bool,
    pub(super) dry_run: bool,
}

#[derive(Serialize)]
pub(super) struct ScriptToPush<'a> {
    pub(super) id: &'a str,
    pub(super) body: &'a str,
}

/// The effect of a push.
#[derive(Deserialize)]
pub(super) struct Pushed {
    pub(super) lexicons: Vec<SavedLexicon>,
    scripts: Vec<PushedScript>,
    deleted_lexicons: Vec<String>,
    deleted_scripts: Vec<String>,
}

#[derive(Deserialize)]
struct PushedScript {
    id: String,
    change: Change,
    #[serde(default)]
    warnings: Vec<String>,
}

/// Sends a push, and returns what it changed, or would change.
///
/// # Errors
/// When the server refuses it; then nothing is stored.
pub(super) async fn send(
    request: &PushRequest<'_>,
    server: &Server,
    config: &Config,
) -> anyhow::Result<Pushed> {
    let needed = match (request.lexicons.is_some(), request.delete_others) {
        (false, _) => "scripts:manage",
        (true, false) => "scripts:manage and lexicons:create",
        (true, true) => "scripts:manage, lexicons:create and lexicons:delete",
    };
    Remote::new(server, needed, config)?.post("/admin/push", request).await
}

impl Pushed {
    /// Whether the server has everything already.
    pub(super) fn is_empty(&self) -> bool {
        let no_deletions = self.deleted_lexicons.is_empty() && self.deleted_scripts.is_empty();
        no_deletions
            && self.lexicons.iter().all(SavedLexicon::is_unchanged)
            && self.scripts.iter().all(|script| script.change == Change::Unchanged)
    }

    /// Prints the scripts and the deletions. `would`: "would be ", or nothing for what was done.
    pub(super) fn print(&self, would: &str) {
        let mut unchanged = 0;
        for PushedScript { id, change, warnings } in &self.scripts {
            match change {
                Change::New => print_line(&format_args!("{would}created: {id}")),
                Change::Changed => print_line(&format_args!("{would}updated: {id}")),
                Change::Unchanged | Change::Invalid => unchanged += 1,
            }
            for warning in warnings {
                print_stderr(&format_args!("{id}: warning: {warning}"));
            }
        }
        for id in self.deleted_scripts.iter().chain(&self.deleted_lexicons) {
            print_line(&format_args!("{would}deleted: {id}"));
        }
        if !self.scripts.is_empty() {
            print_line(&format_args!("{} unchanged", count(unchanged, "script")));
        }
    }
}
