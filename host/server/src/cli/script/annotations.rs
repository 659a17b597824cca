//! The annotations of the script API for editors, `library/belvedere.d.lua`: what this version has, and the functions of
//! a server's plugins.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Deserialize;

use super::super::remote::{Remote, Server};
use super::super::{print_error, print_line};
use belvedere_instance::config::Config;
use belvedere_scripting::scripts::annotations::{self, PluginLibrary};

/// Writes the annotations. If the server's plugins can't be listed, an existing file is kept, and a new one has none.
///
/// # Errors
/// When the file can't be written.
pub(super) async fn write(dir: &Path, server: Option<&Server>, config: &Config) -> anyhow::Result<()> {
    let path = path(dir);
    let plugins = match server {
        None => Vec::new(),
        Some(server) => match installed(server, config).await {
            Ok(plugins) => plugins,
            Err(error) => {
                print_error(&format_args!("the server's plugins can't be listed: {error:#}"));
                if path.exists() {
                    print_line(&format_args!("kept: {}", path.display()));
                    return Ok(());
                }
                Vec::new()
            }
        },
    };
    write_file(&path, &annotations::text(&plugins))
}

/// Writes the annotations of the modules of v3, each in a file.
///
/// # Errors
/// When a file can't be written.
pub(super) fn write_modules(dir: &Path) -> anyhow::Result<()> {
    for (name, text) in annotations::modules() {
        write_file(&dir.join(format!("library/v3/{name}.d.lua")), &format!("{text}\n"))?;
    }
    Ok(())
}

/// Writes the annotations again where `belvedere script init` wrote them.
///
/// # Errors
/// When the file can't be written.
pub(super) async fn refresh(dir: &Path, server: &Server, config: &Config) -> anyhow::Result<()> {
    if path(dir).exists() { write(dir, Some(server), config).await } else { Ok(()) }
}

/// Writes a file, and prints its path.
pub(super) fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, text))
        .with_context(|| format!("{} can't be written", path.display()))?;
    print_line(&format_args!("written: {}", path.display()));
    Ok(())
}

fn path(dir: &Path) -> PathBuf {
    dir.join("library/belvedere.d.lua")
}

async fn installed(server: &Server, config: &Config) -> anyhow::Result<Vec<PluginLibrary>> {
    #[derive(Deserialize)]
    struct Answer {
        plugins: Vec<PluginLibrary>,
    }
    let answer: Answer = Remote::new(server, "plugins:read", config)?.get("/admin/plugins").await?;
    Ok(answer.plugins)
}
