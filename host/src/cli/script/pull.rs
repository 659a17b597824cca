//! `belvedere script pull`: the server's scripts become files. A file whose script the server does not have is left
//! alone, and named.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;

use super::super::{complain, say};
use super::check::count;
use super::remote::Remote;
use super::{Server, files};
use crate::config::Config;
use crate::trigger::Trigger;

pub(super) async fn run(dir: &Path, server: &Server, config: &Config) -> anyhow::Result<ExitCode> {
    let stored = Remote::new(server, config)?.list().await?;
    let mut seen = HashSet::new();
    let mut unchanged = 0;
    for script in stored {
        // What names the file comes from the server: only a trigger does.
        let Ok(trigger) = Trigger::parse(&script.id) else {
            complain(&format_args!("{:?} is no trigger and was left out", script.id));
            continue;
        };
        let path = files::path_of(dir, &trigger);
        if fs::read_to_string(&path).is_ok_and(|text| text == script.body) {
            unchanged += 1;
        } else {
            write(&path, &script.body)?;
            say(&format_args!("written: {}", path.display()));
        }
        seen.insert(path);
    }
    fs::create_dir_all(dir).with_context(|| format!("{} can't be made", dir.display()))?;
    for file in files::read_folder(dir)?.iter().filter(|file| !seen.contains(&file.path)) {
        say(&format_args!("only here: {}", file.path.display()));
    }
    say(&format_args!("{} unchanged", count(unchanged)));
    Ok(ExitCode::SUCCESS)
}

/// The whole file or the old one.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let half = path.with_extension("lua.part");
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&half, text))
        .and_then(|()| fs::rename(&half, path))
        .with_context(|| format!("{} can't be written", path.display()))
}
