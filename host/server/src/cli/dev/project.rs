//! The folder of an app: applies its lexicons, scripts and seeds to the server, through the same code as `push`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::app_folder::{AppFolder, AppParts};
use super::super::push_options::PushOptions;
use super::super::remote::Server;
use super::super::script::Places;
use super::super::{lexicon, print_error, print_line, print_stderr};
use super::network::Network;
use super::plugins::PluginFolder;
use super::seed::Seed;
use super::terminal::Terminal;
use belvedere_instance::config::Config;
use belvedere_scripting::scripts::Engine;

const PLUGINS: &str = "plugins";
const SEED: &str = "seed";

/// The parts of a folder that have changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) lexicons: bool,
    pub(super) scripts: bool,
    pub(super) plugins: bool,
    pub(super) seed: bool,
}

impl Parts {
    pub(super) const ALL: Self = Self { lexicons: true, scripts: true, plugins: true, seed: true };

    /// The parts that have these paths, relative to the folder.
    pub(super) fn of(paths: &[PathBuf]) -> Self {
        let mut parts = Self::default();
        for path in paths {
            match path.iter().next().and_then(|first| first.to_str()) {
                Some(PLUGINS) => parts.plugins = true,
                Some(SEED) => parts.seed = true,
                _ if AppFolder::is_of_lexicons(path) => parts.lexicons = true,
                _ => parts.scripts = true,
            }
        }
        parts
    }
}

/// The folder, and the server that has its content.
pub(super) struct Project {
    pub(super) folder: PathBuf,
    pub(super) server: Server,
    pub(super) plugins: PluginFolder,
    pub(super) config: Config,
    pub(super) engine: Engine,
    pub(super) network: Arc<Network>,
    pub(super) terminal: Arc<Terminal>,
}

impl Project {
    /// Reads the seeds of a folder.
    pub(super) fn seed(folder: &Path) -> Seed {
        Seed::read(&folder.join(SEED))
    }

    /// Applies parts of the folder. Prints the errors of invalid files, for which the server keeps the version that it has, and returns
    /// whether there were none.
    pub(super) async fn apply(&self, parts: Parts) -> bool {
        let plugins = !parts.plugins || self.apply_plugins().await;
        let app = !(parts.lexicons || parts.scripts) || self.apply_app(parts).await;
        let seed = !parts.seed || self.apply_seed();
        plugins && app && seed
    }

    async fn apply_plugins(&self) -> bool {
        let applied = self.plugins.apply(&self.folder.join(PLUGINS), &self.server).await;
        applied.unwrap_or_else(|error| {
            print_error(&format_args!("{error:#}"));
            false
        })
    }

    async fn apply_app(&self, parts: Parts) -> bool {
        let app = AppFolder(self.folder.clone());
        // Also for failures of the scripts that the server has already.
        if let Ok(places) = Places::of_folder(&app.scripts()) {
            self.terminal.set_places(places);
        }
        let pushed = self.push(&app, parts).await.unwrap_or_else(|error| {
            print_error(&format_args!("{error:#}"));
            false
        });
        if parts.lexicons {
            self.network.send_again();
        }
        pushed
    }

    /// Whether all was pushed. Prints why it was not.
    async fn push(&self, app: &AppFolder, parts: Parts) -> anyhow::Result<bool> {
        let lexicons = if parts.lexicons { app.read_lexicons()? } else { Some(AppParts::default()) };
        let scripts =
            if parts.scripts { app.read_scripts(&self.engine).await? } else { Some(AppParts::default()) };
        let is_valid = lexicons.is_some() && scripts.is_some();
        // A mistake in one part does not hold the other one back.
        let app = lexicons.unwrap_or_default().with(scripts.unwrap_or_default());
        // The network sends its records again instead of backfills.
        let (options, backfill) = (PushOptions { delete: true, dry_run: false }, false);
        let pushed = app.push(options, backfill, &self.server, &self.config).await?;
        pushed.print("");
        lexicon::print_saved(pushed.lexicons);
        Ok(is_valid)
    }

    fn apply_seed(&self) -> bool {
        let Seed { accounts, records, problems } = Self::seed(&self.folder);
        self.network.put_accounts(&accounts);
        let (changed, refused) = self.network.seed(records, problems.is_empty());
        for problem in problems.iter().chain(&refused) {
            print_stderr(problem);
        }
        if changed > 0 {
            print_line(&format_args!("seeded: {changed} records"));
        }
        problems.is_empty() && refused.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_belongs_to_a_part() {
        let of = |path: &str| Parts::of(&[PathBuf::from(path)]);
        assert_eq!(of("lexicons/com/example/a.json"), Parts { lexicons: true, ..Parts::default() });
        assert_eq!(of("app.json"), Parts { lexicons: true, ..Parts::default() });
        assert_eq!(of("seed/accounts.json"), Parts { seed: true, ..Parts::default() });
        assert_eq!(of("plugins/a/plugin.wasm"), Parts { plugins: true, ..Parts::default() });
        assert_eq!(of("scripts/xrpc.query/a.b.c.lua"), Parts { scripts: true, ..Parts::default() });
        assert_eq!(of("xrpc.query/a.b.c.lua"), Parts { scripts: true, ..Parts::default() });
        assert_eq!(Parts::of(&[]), Parts::default());
    }
}
