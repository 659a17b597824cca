//! Opens the applications of the cases: each has its own copy of a database that has the schema, the lexicons and the scripts of the
//! folder, and in which the setup scripts have run.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_base::lifecycle::Lifecycle;
use belvedere_base::random::Random;
use belvedere_instance::config::{Args, Config, ScriptSql};
use belvedere_instance::pds::Sessions;
use belvedere_protocol::atproto::lexicon::LexiconKind;
use belvedere_protocol::trigger::TriggerKind;
use belvedere_scripting::scripts::{Engine, Invocation, ScriptRegistry};
use belvedere_storage::store::lexicons::{self, MANUAL, NewLexicon};
use belvedere_storage::store::scripts::{self, NewScript};
use serde_json::json;
use tempfile::TempDir;
use url::Url;

use super::super::super::lexicon::FolderLexicon;
use super::super::super::stand_in_pds as pds;
use super::super::files::ScriptFile;
use super::super::order::Order;
use super::super::places::Places;
use super::coverage::Coverage;
use super::databases::Databases;
use super::network::Network;
use super::plugins::TestPlugins;
use super::seen::Seen;
use super::world::World;
use crate::app::{App, StandIns};
use crate::methods::InProcess;

/// The time at which a case begins: 2026-01-01T00:00:00Z.
const START: Timestamp = Timestamp(1_767_225_600_000_000);

/// The seed with which a case begins.
const SEED: u64 = 1;

/// The parts that the application of each case gets.
pub(super) struct Shared {
    pub(super) engine: Engine,
    pub(super) coverage: Option<Arc<Coverage>>,
}

/// The parts that all cases share.
#[derive(Debug)]
pub(super) struct Prepared {
    config: Config,
    engine: Engine,
    /// Receives the profiles of all runs.
    coverage: Option<Arc<Coverage>>,
    scripts: Arc<ScriptRegistry>,
    databases: Databases,
    /// The configuration's data folder, removed at the end.
    _dir: TempDir,
}

impl Prepared {
    /// Makes the database of which each case gets a copy: in the memory of the machine, or on the server of `database`.
    ///
    /// # Errors
    /// When it can't be made, or a setup script fails.
    pub(super) async fn new(
        (files, lexicons): (&[ScriptFile], &[FolderLexicon]),
        Shared { engine, coverage }: Shared,
        database: Option<&str>,
        places: &Places,
    ) -> anyhow::Result<Self> {
        let dir = folder_in_memory().context("a folder for the databases of the tests can't be created")?;
        let databases = Databases::new(dir.path(), database).await?;
        let mut args = Args::default();
        args.server.data_dir = Some(dir.path().display().to_string());
        let config = args.check().map_err(|problems| anyhow::anyhow!("{problems}"))?;
        let mut config =
            Config { database: config.database.clone().moved_to(databases.template()), ..config };
        config.indexing.jetstream_urls.clear();
        // Without it, the server would get a role.
        config.database.script_sql = ScriptSql::Guarded;
        let prepared = Self { config, engine, coverage, scripts: Arc::default(), databases, _dir: dir };
        match prepared.make_template(files, lexicons, places).await {
            Ok(()) => Ok(prepared),
            Err(error) => {
                prepared.finish().await;
                Err(error)
            }
        }
    }

    async fn make_template(
        &self,
        files: &[ScriptFile],
        lexicons: &[FolderLexicon],
        places: &Places,
    ) -> anyhow::Result<()> {
        let world = self.open(&self.databases.template()).await?;
        let filled = self.fill(&world.app, files, lexicons, places).await;
        world.app.close().await;
        filled
    }

    async fn fill(
        &self,
        app: &App,
        files: &[ScriptFile],
        lexicons: &[FolderLexicon],
        places: &Places,
    ) -> anyhow::Result<()> {
        let now = app.clock.now();
        for lexicon in lexicons.iter().map(stored).chain(missing(files, lexicons)) {
            lexicons::upsert(&app.db, &lexicon, now).await?;
        }
        let order = Order::of(files.iter().map(|file| (file.trigger.id(), &*file.source)));
        let mut in_order: Vec<&ScriptFile> = files.iter().collect();
        in_order.sort_by_key(|file| order.place(file.trigger.id()));
        for file in &in_order {
            let script_type = if file.trigger.kind() == TriggerKind::View { "view" } else { "lua" };
            let script = NewScript {
                id: file.trigger.id().to_owned(),
                script_type: script_type.to_owned(),
                body: file.source.clone(),
                ..NewScript::default()
            };
            scripts::upsert(&app.db, &script, now).await?;
        }
        self.scripts.reload(&self.engine, &app.db).await?;
        for file in in_order.iter().filter(|file| file.trigger.kind() == TriggerKind::Setup) {
            let runtime = &app.scripting.runtime;
            let Some(script) = runtime.scripts.get(file.trigger.id()) else { continue };
            if let Err(failure) = runtime.engine.run(&script, Invocation::default(), &runtime.services).await
            {
                bail!("the setup script failed: {}", places.replace(&failure.message));
            }
        }
        Ok(())
    }

    /// Opens the application of a new case.
    ///
    /// # Errors
    /// When its database can't be made or opened.
    pub(super) async fn next(&self, number: usize) -> anyhow::Result<World> {
        self.open(&self.databases.copy(number).await?).await
    }

    /// Closes the application of a case, and removes its database.
    pub(super) async fn end(&self, world: World, number: usize) {
        world.app.close().await;
        self.databases.remove(number).await;
    }

    /// Removes what is not in the folder.
    pub(super) async fn finish(&self) {
        self.databases.finish().await;
    }

    async fn open(&self, url: &str) -> anyhow::Result<World> {
        let config =
            Config { database: self.config.database.clone().moved_to(url.to_owned()), ..self.config.clone() };
        let directory = Url::parse(&config.indexing.plc_url).context("the PLC directory has no URL")?;
        let (clock, seen) = (Clock::fixed(START), Arc::new(Seen::new(self.coverage.clone())));
        let network = Arc::new(Network::new(Arc::clone(&seen), clock.clone(), directory));
        let plugins = Arc::new(TestPlugins::new(Arc::clone(&seen)));
        let random = Random::seeded(SEED);
        let stand_ins = StandIns {
            clock: clock.clone(),
            random: random.clone(),
            network: network.clone(),
            plugins: plugins.clone(),
            sessions: Sessions::Everyone { endpoint: pds::ORIGIN.into() },
            log: seen.clone(),
            observer: seen.clone(),
            engine: self.engine.clone(),
            scripts: Arc::clone(&self.scripts),
        };
        let xrpc = Arc::new(InProcess::default());
        let app = Box::pin(App::embed(config, Lifecycle::default(), xrpc.clone(), stand_ins)).await?;
        xrpc.open(&app);
        // The tasks of the start draw in any order.
        random.reseed(SEED);
        Ok(World { app, clock, network, plugins, seen })
    }
}

/// A folder in memory where the system has such a place, otherwise among the temporary files.
fn folder_in_memory() -> std::io::Result<TempDir> {
    let new =
        |builder: &tempfile::Builder<'_, '_>| builder.tempdir_in("/dev/shm").or_else(|_| builder.tempdir());
    new(tempfile::Builder::new().prefix("belvedere-test-"))
}

fn stored(lexicon: &FolderLexicon) -> NewLexicon {
    NewLexicon {
        id: lexicon.id.to_string(),
        lexicon_json: lexicon.text.clone(),
        lexicon_type: lexicon.kind.as_str().to_owned(),
        source: MANUAL.to_owned(),
        ..NewLexicon::default()
    }
}

/// Lexicons without parameters for the methods of scripts that have none: the script gets what the call sends.
fn missing<'a>(
    files: &'a [ScriptFile],
    lexicons: &'a [FolderLexicon],
) -> impl Iterator<Item = NewLexicon> + 'a {
    let method = |file: &ScriptFile| {
        let kind = match file.trigger.kind() {
            TriggerKind::Query => LexiconKind::Query,
            TriggerKind::Procedure => LexiconKind::Procedure,
            _ => return None,
        };
        Some((file.trigger.subject().to_owned(), kind))
    };
    let unknown = |(id, _): &(String, LexiconKind)| !lexicons.iter().any(|lexicon| lexicon.id.as_str() == id);
    files.iter().filter_map(method).filter(unknown).map(|(id, kind)| NewLexicon {
        lexicon_json: json!({ "lexicon": 1, "id": id, "defs": { "main": { "type": kind.as_str() } } })
            .to_string(),
        lexicon_type: kind.as_str().to_owned(),
        source: MANUAL.to_owned(),
        id,
        ..NewLexicon::default()
    })
}
