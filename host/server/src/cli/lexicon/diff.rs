//! `belvedere lexicon diff`: prints how the lexicons of a folder differ from those of a server.

use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;

use super::super::folder::count;
use super::super::remote::Server;
use super::super::{print_error, print_line};
use super::check::report;
use super::files;
use super::remote::Lexicons;
use crate::api::admin::lexicons::differences;
use crate::cli::{FAILED, NOT_DONE};
use belvedere_instance::config::Config;

pub(super) async fn run(dir: &Path, server: &Server, config: &Config) -> ExitCode {
    match compare(dir, server, config).await {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(FAILED),
        Err(error) => {
            print_error(&format_args!("{error:#}"));
            ExitCode::from(NOT_DONE)
        }
    }
}

/// Prints the differences. Returns how many lexicons differ.
async fn compare(dir: &Path, server: &Server, config: &Config) -> anyhow::Result<usize> {
    let folder = files::read(&[dir.to_owned()])?;
    let problems = report(&folder);
    if problems > 0 {
        bail!("{} in the folder, so nothing was compared", count(problems, "problem"));
    }
    let mut here = folder.by_id();
    let (mut equal, mut different) = (0, 0);
    for stored in Lexicons::of(server, config)?.list().await? {
        let Some(files) = here.remove(stored.id.as_str()) else {
            print_line(&format_args!("only on the server: {}", stored.id));
            different += 1;
            continue;
        };
        let document = serde_json::from_str(stored.lexicon_json.get())?;
        let (found, left_out) = differences::of(&document, &files[0].document);
        if found.is_empty() {
            equal += 1;
            continue;
        }
        different += 1;
        print_line(&format_args!("different: {} ({})", stored.id, files[0].path.display()));
        for difference in found {
            print_line(&format_args!("  {difference}"));
        }
        if left_out > 0 {
            print_line(&format_args!("  and {} more", count(left_out, "difference")));
        }
    }
    for file in here.into_values().filter_map(|files| files.into_iter().next()) {
        print_line(&format_args!("only here: {} ({})", file.id, file.path.display()));
        different += 1;
    }
    print_line(&format_args!("{} equal", count(equal, "lexicon")));
    Ok(different)
}
