//! `belvedere lexicon pull`: writes the server's lexicons to files. Files whose lexicon the server does not have are kept
//! and listed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::super::folder::{count, create, replace};
use super::super::remote::Server;
use super::super::{print_error, print_line};
use super::files;
use super::remote::{LexiconSettings, Lexicons};
use belvedere_instance::config::Config;
use belvedere_protocol::atproto::Nsid;

/// Writes the files. Returns the settings of the lexicons that have any, by id.
///
/// # Errors
/// When the server does not answer, or a file can't be written.
pub(in crate::cli) async fn run(
    dir: &Path,
    server: &Server,
    config: &Config,
) -> anyhow::Result<BTreeMap<String, LexiconSettings>> {
    let mut settings = BTreeMap::new();
    let stored = Lexicons::of(server, config)?.list().await?;
    create(dir)?;
    let folder = files::read(&[dir.to_owned()])?;
    let mut here = folder.by_id();
    let mut unchanged = 0;
    for lexicon in stored {
        // The id becomes a path, so anything but an NSID is refused.
        let Ok(id) = Nsid::try_from(lexicon.id.as_str()) else {
            print_error(&format_args!("{:?} is not an NSID and was skipped", lexicon.id));
            continue;
        };
        if lexicon.settings != LexiconSettings::default() {
            settings.insert(id.to_string(), lexicon.settings);
        }
        let document: serde_json::Value = serde_json::from_str(lexicon.lexicon_json.get())?;
        let copies = here.remove(id.as_str()).unwrap_or_default();
        // A file that is formatted differently is kept.
        let outdated = copies.iter().filter(|file| file.document != document);
        let mut paths: Vec<PathBuf> = outdated.map(|file| file.path.clone()).collect();
        if copies.is_empty() {
            paths.push(files::path_of(dir, &id));
        }
        unchanged += usize::from(paths.is_empty());
        for path in paths {
            replace(&path, &format!("{}\n", lexicon.lexicon_json.get()))?;
            print_line(&format_args!("written: {}", path.display()));
        }
    }
    for file in here.into_values().flatten() {
        print_line(&format_args!("only here: {}", file.path.display()));
    }
    print_line(&format_args!("{} unchanged", count(unchanged, "lexicon")));
    Ok(settings)
}
