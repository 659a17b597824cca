//! `belvedere lexicon push`: stores the lexicons of a folder on a server.

use std::path::Path;

use anyhow::Context as _;

use super::super::folder::count;
use super::super::push_options::PushOptions;
use super::super::remote::Server;
use super::super::{print_error, print_line, print_stderr};
use super::check::report;
use super::files::{self, Folder, LexiconFile};
use super::remote::{Change, Lexicons, Preview, RecordsPreview, SavedLexicon, Upload, calls};
use belvedere_instance::config::Config;
use belvedere_storage::store::lexicons::NETWORK;

/// Whether everything was pushed. Prints why not. `backfill`: new record lexicons start backfills.
///
/// # Errors
/// When the folder can't be read, or the server refuses a lexicon.
pub(in crate::cli) async fn run(
    dir: &Path,
    server: &Server,
    options: PushOptions,
    backfill: bool,
    config: &Config,
) -> anyhow::Result<bool> {
    let folder = files::read(&[dir.to_owned()])?;
    let problems = report(&folder);
    if problems > 0 {
        print_error(&format_args!("{} in the folder, so nothing was pushed", count(problems, "problem")));
        return Ok(false);
    }
    // Copies are equal, so the first is as good as the others.
    let lexicons: Vec<&LexiconFile> = folder.by_id().into_values().map(|copies| copies[0]).collect();
    if lexicons.is_empty() {
        // Most likely the folder is another one, and `--delete` would delete everything.
        print_error(&format_args!("{} has no lexicons, so nothing was done", dir.display()));
        return Ok(false);
    }
    let remote = Lexicons::to_change(server, options.delete, config)?;
    let mut outcome = Outcome::default();
    let mut stored = 0;
    for files in calls(&lexicons) {
        let uploads: Vec<Upload<'_>> = files
            .iter()
            .map(|file| Upload::of(&file.text, backfill, None))
            .collect::<serde_json::Result<_>>()?;
        let done = if options.dry_run {
            let preview = remote.preview(&uploads).await?;
            outcome.print_preview(preview);
            Ok(())
        } else {
            remote.upload(&uploads).await.map(|saved| outcome.print(saved))
        };
        done.with_context(|| match stored {
            0 => "nothing was pushed".to_owned(),
            _ => format!("only {} were pushed", count(stored, "lexicon")),
        })?;
        stored += files.len();
    }
    if options.delete {
        delete_others(&remote, &folder, options.dry_run).await?;
    }
    outcome.print_counts(options.dry_run);
    Ok(!outcome.is_invalid)
}

/// Prints what the upload of an app's lexicons would change: whether all are valid.
///
/// # Errors
/// When the server does not answer it.
pub(in crate::cli) async fn preview(
    uploads: &[Upload<'_>],
    server: &Server,
    config: &Config,
) -> anyhow::Result<bool> {
    let mut outcome = Outcome::default();
    outcome.print_preview(Lexicons::to_change(server, false, config)?.preview(uploads).await?);
    outcome.print_counts(true);
    Ok(!outcome.is_invalid)
}

/// Prints the lexicons of an app that were stored, if it has any.
pub(in crate::cli) fn print_saved(saved: Vec<SavedLexicon>) {
    if saved.is_empty() {
        return;
    }
    let mut outcome = Outcome::default();
    outcome.print(saved);
    outcome.print_counts(false);
}

/// The counts of what was printed.
#[derive(Default)]
struct Outcome {
    unchanged: usize,
    backfills: usize,
    is_invalid: bool,
}

impl Outcome {
    fn print_counts(&self, dry_run: bool) {
        if self.backfills > 0 {
            let verb = if dry_run { "would start" } else { "started" };
            print_line(&format_args!("{} {verb}", count(self.backfills, "backfill")));
        }
        print_line(&format_args!("{} unchanged", count(self.unchanged, "lexicon")));
    }

    fn print(&mut self, saved: Vec<SavedLexicon>) {
        for SavedLexicon { id, change, backfill_job_id, warnings } in saved {
            self.backfills += usize::from(backfill_job_id.is_some());
            self.print_change("", &id, change, &warnings);
        }
    }

    fn print_preview(&mut self, preview: Preview) {
        for lexicon in preview.lexicons {
            let id = lexicon.id.as_deref().unwrap_or("a lexicon");
            self.backfills += usize::from(lexicon.starts_backfill);
            self.print_change("would be ", id, lexicon.change, &lexicon.warnings);
            if let Some(error) = &lexicon.error {
                self.is_invalid = true;
                print_stderr(&format_args!("{id}: {error}"));
            }
            if let Some(breaking) = &lexicon.breaking {
                print_stderr(&format_args!("{id}: warning: it would break clients or records: {breaking}"));
            }
            if lexicon.change == Change::Changed && lexicon.source.as_deref() == Some(NETWORK) {
                print_stderr(&format_args!("{id}: warning: it would no longer follow the network"));
            }
            if let Some(records) = &lexicon.records {
                print_records(id, records);
            }
        }
        for affected in preview.affected {
            print_records(&affected.collection, &affected.records);
        }
        if preview.collections_left_out > 0 {
            let collections = count(preview.collections_left_out, "collection");
            print_stderr(&format_args!("the records of {collections} more were not checked"));
        }
    }

    /// Prints what happened to a lexicon. Warnings about an unchanged one were printed when it was pushed.
    fn print_change(&mut self, would: &str, id: &str, change: Change, warnings: &[String]) {
        match change {
            Change::New => print_line(&format_args!("{would}created: {id}")),
            Change::Changed => print_line(&format_args!("{would}updated: {id}")),
            Change::Unchanged => {
                self.unchanged += 1;
                return;
            }
            Change::Invalid => print_line(&format_args!("{would}refused: {id}")),
        }
        for warning in warnings {
            print_stderr(&format_args!("{id}: warning: {warning}"));
        }
    }
}

fn print_records(collection: &str, records: &RecordsPreview) {
    let RecordsPreview { checked, become_invalid } = records;
    if *become_invalid > 0 {
        print_stderr(&format_args!(
            "{collection}: warning: {become_invalid} of the newest {checked} records would become invalid"
        ));
    }
}

/// Deletes the uploaded lexicons of the server that have no file.
async fn delete_others(remote: &Lexicons, folder: &Folder, dry_run: bool) -> anyhow::Result<()> {
    let here = folder.by_id();
    for stored in remote.list().await? {
        if stored.source == NETWORK || here.contains_key(stored.id.as_str()) {
            continue;
        }
        let id = &stored.id;
        if dry_run {
            print_line(&format_args!("would be deleted: {id}"));
        } else {
            remote.delete(id).await.with_context(|| format!("{id} was not deleted"))?;
            print_line(&format_args!("deleted: {id}"));
        }
    }
    Ok(())
}
