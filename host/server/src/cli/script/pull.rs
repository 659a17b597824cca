//! `belvedere script pull`: writes the server's scripts to files. Files whose script the server does not have are kept
//! and listed. Annotations of `belvedere script init` are written again, with the server's plugins.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use super::super::folder::{count, create, replace};
use super::super::remote::Server;
use super::super::{print_error, print_line};
use super::annotations;
use super::files;
use super::remote::Scripts;
use belvedere_instance::config::Config;
use belvedere_protocol::trigger::Trigger;

pub(in crate::cli) async fn run(dir: &Path, server: &Server, config: &Config) -> anyhow::Result<ExitCode> {
    let stored = Scripts::of(server, config)?.list().await?;
    let mut seen = HashSet::new();
    let mut unchanged = 0;
    for script in stored {
        // The id becomes a path, so anything but a valid trigger is refused.
        let Ok(trigger) = Trigger::parse(&script.id) else {
            print_error(&format_args!("{:?} is not a trigger id and was skipped", script.id));
            continue;
        };
        let path = files::path_of(dir, &trigger);
        if fs::read_to_string(&path).is_ok_and(|text| text == script.body) {
            unchanged += 1;
        } else {
            replace(&path, &script.body)?;
            print_line(&format_args!("written: {}", path.display()));
        }
        seen.insert(path);
    }
    create(dir)?;
    for file in files::read_folder(dir)?.scripts.iter().filter(|file| !seen.contains(&file.path)) {
        print_line(&format_args!("only here: {}", file.path.display()));
    }
    print_line(&format_args!("{} unchanged", count(unchanged, "script")));
    annotations::refresh(dir, server, config).await?;
    Ok(ExitCode::SUCCESS)
}
