//! `belvedere diff`: prints how two instances differ in their lexicons, scripts, views and settings (docs/adr/0151), or an app's folder
//! from an instance, in what a folder has.

pub(in crate::cli) mod compare;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;

use super::app_folder::AppFolder;
use super::folder::count;
use super::remote::{Remote, Server};
use super::{FAILED, NOT_DONE, print_error, print_line};
use crate::api::admin::export::{FORMAT, InstanceExport};
use belvedere_instance::config::Config;

#[derive(Args, Debug)]
pub(super) struct Command {
    /// An instance: its address (https://…), or a file with its export (GET /admin/export); or the folder of an app
    #[arg(value_name = "URL, FILE or APP")]
    before: String,
    /// The instance or the folder to compare it with
    #[arg(value_name = "URL, FILE or APP")]
    after: String,
    /// An admin API key of the first address, and of the second if that has none of its own
    #[arg(
        id = "first_key",
        long = "key",
        env = "BELVEDERE_ADMIN_KEY",
        hide_env_values = true,
        value_name = "KEY"
    )]
    first_key: Option<String>,
    /// An admin API key of the second address
    #[arg(
        id = "second_key",
        long = "second-key",
        env = "BELVEDERE_SECOND_ADMIN_KEY",
        hide_env_values = true,
        value_name = "KEY"
    )]
    second_key: Option<String>,
}

pub(super) async fn run(command: Command, config: &Config) -> ExitCode {
    match compare(command, config).await {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(FAILED),
        Err(error) => {
            print_error(&format_args!("{error:#}"));
            ExitCode::from(NOT_DONE)
        }
    }
}

/// Prints the differences. Returns how many parts differ.
async fn compare(command: Command, config: &Config) -> anyhow::Result<usize> {
    let Command { before, after, first_key, second_key } = command;
    let second_key = second_key.or_else(|| first_key.clone());
    let has_folder = [&before, &after].iter().any(|place| Path::new(place).is_dir());
    let (mut old, mut new) =
        tokio::try_join!(read(&before, first_key, config), read(&after, second_key, config))?;
    if has_folder {
        compare::keep_parts_of_folders(&mut old, &mut new);
    }
    let found = compare::exports(&old, &new)?;
    for line in &found.lines {
        print_line(line);
    }
    print_line(&format_args!(
        "{} equal, {} different: {} → {}",
        count(found.equal, "part"),
        found.different,
        old.url,
        new.url
    ));
    Ok(found.different)
}

async fn read(place: &str, key: Option<String>, config: &Config) -> anyhow::Result<InstanceExport> {
    if Path::new(place).is_dir() {
        return AppFolder(PathBuf::from(place)).export();
    }
    let export: InstanceExport = if place.starts_with("http://") || place.starts_with("https://") {
        let key = key.with_context(|| format!("{place} needs an admin API key (--key, --second-key)"))?;
        let server = Server::at(place, key);
        let needed = "lexicons:read, scripts:read and settings:manage";
        let export = Remote::new(&server, needed, config)?.get("/admin/export").await;
        export.with_context(|| place.to_owned())?
    } else {
        let text = std::fs::read(place).with_context(|| place.to_owned())?;
        serde_json::from_slice(&text)
            .with_context(|| format!("{place} is not the answer of GET /admin/export"))?
    };
    if export.format != FORMAT {
        bail!("{place} has the format {}, and this program reads {FORMAT}", export.format);
    }
    Ok(export)
}
