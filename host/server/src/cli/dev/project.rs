//! The folder of an app: applies its lexicons, scripts and seeds to the server, through the same code as `push`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::remote::Server;
use super::super::script::Places;
use super::super::{lexicon, print_error, print_line, print_stderr, script};
use super::network::Network;
use super::seed::Seed;
use super::terminal::Terminal;
use belvedere_instance::config::Config;
use belvedere_scripting::scripts::Engine;

const SCRIPTS: &str = "scripts";
const LEXICONS: &str = "lexicons";
const SEED: &str = "seed";

/// The parts of a folder that have changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) lexicons: bool,
    pub(super) scripts: bool,
    pub(super) seed: bool,
}

impl Parts {
    pub(super) const ALL: Self = Self { lexicons: true, scripts: true, seed: true };

    /// The parts that have these paths, relative to the folder.
    pub(super) fn of(paths: &[PathBuf]) -> Self {
        let mut parts = Self::default();
        for path in paths {
            match path.iter().next().and_then(|first| first.to_str()) {
                Some(LEXICONS) => parts.lexicons = true,
                Some(SEED) => parts.seed = true,
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

    /// The folder of the scripts: `scripts`, if there is one.
    fn scripts(&self) -> PathBuf {
        let scripts = self.folder.join(SCRIPTS);
        if scripts.is_dir() { scripts } else { self.folder.clone() }
    }

    /// Applies parts of the folder. Prints the errors of invalid files, for which the server keeps the version that it has, and returns
    /// whether there were none.
    pub(super) async fn apply(&self, parts: Parts) -> bool {
        let lexicons = !parts.lexicons || self.apply_lexicons().await;
        let scripts = !parts.scripts || self.apply_scripts().await;
        let seed = !parts.seed || self.apply_seed();
        lexicons && scripts && seed
    }

    async fn apply_lexicons(&self) -> bool {
        let dir = self.folder.join(LEXICONS);
        if !dir.is_dir() {
            return true;
        }
        // The network sends its records again instead.
        let options = lexicon::PushOptions { delete: true, dry_run: false, no_backfill: true };
        let pushed = done(lexicon::push(&dir, &self.server, options, &self.config).await);
        self.network.send_again();
        pushed
    }

    async fn apply_scripts(&self) -> bool {
        let dir = self.scripts();
        // Also for failures of the scripts that the server has already.
        if let Ok(places) = Places::of_folder(&dir) {
            self.terminal.set_places(places);
        }
        let options = script::PushOptions { delete: true, dry_run: false };
        done(script::push(&dir, &self.server, options, &self.config, &self.engine).await)
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

/// Whether everything was pushed. Prints why it was not.
fn done(pushed: anyhow::Result<bool>) -> bool {
    pushed.unwrap_or_else(|error| {
        print_error(&format_args!("{error:#}"));
        false
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_belongs_to_a_part() {
        let of = |path: &str| Parts::of(&[PathBuf::from(path)]);
        assert_eq!(of("lexicons/com/example/a.json"), Parts { lexicons: true, ..Parts::default() });
        assert_eq!(of("seed/accounts.json"), Parts { seed: true, ..Parts::default() });
        assert_eq!(of("scripts/xrpc.query/a.b.c.lua"), Parts { scripts: true, ..Parts::default() });
        assert_eq!(of("xrpc.query/a.b.c.lua"), Parts { scripts: true, ..Parts::default() });
        assert_eq!(Parts::of(&[]), Parts::default());
    }
}
