//! The script engine, the stored scripts and views, the services of runs, and the runners of event scripts and jobs.

use std::sync::Arc;

use tokio::sync::{Mutex, Semaphore, mpsc};

use super::open::{StartError, engine_config};
use super::plugins::PluginParts;
use super::recordings;
use super::stand_ins::Outside;
use super::startup::Startup;
use crate::access::{Buckets, ScriptLookUps};
use crate::event_scripts::EventScripts;
use crate::scheduler::Scheduler;
use crate::worker::{self, Workers};
use belvedere_instance::core::Core;
use belvedere_instance::jobs::JobQueue;
use belvedere_instance::keys::attestation::Attestation;
use belvedere_instance::labels::LabelIssuer;
use belvedere_instance::moderation::Moderator;
use belvedere_instance::repos::Repos;
use belvedere_instance::repos::linked::LinkedRepos;
use belvedere_instance::service_identity::ServiceIdentity;
use belvedere_instance::settings::Settings;
use belvedere_instance::spaces::Spaces;
use belvedere_scripting::scripts::{
    Engine, EngineConfig, LogSink, OutboundHttp, Profiles, RunRecorder, ScriptRegistry, ScriptRuntime,
    ServerIndex, ServerLabels, ServerLog, ServerPlugins, Services, UnmaskedRun, Variables, Xrpc,
};
use belvedere_scripting::views::Views;
use belvedere_wasm::sandbox::MemoryPool;

#[derive(Debug)]
pub struct Scripting {
    pub runtime: ScriptRuntime,
    /// Permits of runs that wait for other servers.
    pub web: OutboundHttp,
    /// Scripts of records and labels.
    pub events: EventScripts,
    /// Background jobs.
    pub jobs: JobQueue,
    /// Permits of dry runs.
    pub dry_runs: Semaphore,
    /// Setup scripts run one after the other.
    pub setups: Mutex<()>,
    /// The stored views of query methods.
    pub views: Views,
    /// The profiles of accounts, for views.
    pub profiles: Arc<Profiles>,
    /// Chooses the runs that are recorded.
    pub recorder: Arc<RunRecorder>,
    /// The recorded runs, for the task that stores them.
    pub(super) recorded: std::sync::Mutex<Option<mpsc::Receiver<UnmaskedRun>>>,
}

/// Dry runs at once: they are made by hand, and must leave the instances of the guest to requests and events.
const MAX_DRY_RUNS: usize = 2;

/// The engine, and every stored script compiled.
pub(super) struct LoadedScripts {
    engine: Engine,
    scripts: Arc<ScriptRegistry>,
}

impl LoadedScripts {
    pub(super) async fn open(startup: &Startup) -> Result<Self, StartError> {
        let shared = match &startup.outside {
            Outside::Server => None,
            Outside::Development(parts) => Some((parts.engine.clone(), Arc::default())),
            Outside::Embedded(stand_ins) => Some((stand_ins.engine.clone(), Arc::clone(&stand_ins.scripts))),
        };
        if let Some((engine, scripts)) = shared {
            let reloaded = scripts.reload(&engine, &startup.core.db).await;
            reloaded.map_err(|error| startup.store_error(error))?;
            return Ok(Self { engine, scripts });
        }
        let config = EngineConfig { processor: startup.processor.clone(), ..engine_config(&startup.config) };
        let engine = Engine::open(config).await?;
        let scripts = Arc::new(ScriptRegistry::new());
        scripts.reload(&engine, &startup.core.db).await.map_err(|error| startup.store_error(error))?;
        Ok(Self { engine, scripts })
    }

    /// The memory of runs, which the calls of plugins share.
    pub(super) fn memory(&self) -> MemoryPool {
        self.engine.memory()
    }
}

impl Scripting {
    pub(super) async fn open(
        startup: &Startup,
        loaded: LoadedScripts,
        xrpc: Arc<dyn Xrpc>,
        (repos, linked_repos, spaces, plugins): (&Repos, &LinkedRepos, &Spaces, &PluginParts),
        (identity, issuer, attestation): (&ServiceIdentity, &LabelIssuer, &Arc<Attestation>),
        (settings, sender_buckets): (&Arc<Settings>, &Arc<Buckets>),
    ) -> Result<Self, StartError> {
        let Core { db, clock, random, events, sealing, .. } = &startup.core;
        let LoadedScripts { engine, scripts } = loaded;
        let variables = Variables::default();
        variables.reload(sealing, db).await.map_err(|error| startup.store_error(error))?;
        let web = OutboundHttp::new(startup.core.net.clone(), startup.config.scripts.pool_size);
        let jobs = JobQueue::new(db.clone(), Arc::clone(&scripts) as _, clock.clone(), random.clone());
        let index = Arc::new(ServerIndex::new(db.clone()));
        let log: Arc<dyn LogSink> = match startup.outside.embedded() {
            Some(stand_ins) => Arc::clone(&stand_ins.log),
            None => Arc::new(ServerLog::new(events.clone(), variables.clone())),
        };
        let labels = Arc::new(ServerLabels(db.clone(), clock.clone(), issuer.clone()));
        let moderator = Moderator::new(db.clone(), clock.clone(), events.clone());
        let look_ups = ScriptLookUps { buckets: Arc::clone(sender_buckets), clock: clock.clone() };
        let people = startup.people.clone();
        let profiles = Profiles {
            db: db.clone(),
            settings: Arc::clone(settings),
            registry: Arc::clone(&startup.core.registry),
            people: people.clone(),
        };
        let profiles = Arc::new(profiles);
        let views = Views::default();
        views.reload(db).await.map_err(|error| startup.store_error(error))?;
        let (recorder, recorded) = RunRecorder::new();
        let recorder = Arc::new(recorder);
        recordings::load(&recorder, db).await.map_err(|error| startup.store_error(error))?;
        let services = Services::new(index, log, clock.clone(), random.clone())
            .with_variables(variables)
            .with_recorder(Arc::clone(&recorder))
            .with_scripts(Arc::clone(&scripts))
            .with_web(web.clone())
            .with_xrpc(xrpc)
            .with_jobs(jobs.clone())
            .with_atproto(startup.core.resolver.clone(), labels, Arc::clone(attestation))
            .with_moderator(moderator)
            .with_people(people, Arc::new(look_ups))
            .with_profiles(Arc::clone(&profiles))
            .with_identity(identity.clone())
            .with_repos(repos.clone())
            .with_linked_repos(linked_repos.clone())
            .with_spaces(spaces.clone())
            .with_plugins(match startup.outside.embedded() {
                Some(stand_ins) => Arc::clone(&stand_ins.plugins),
                None => Arc::new(ServerPlugins::new(plugins.loaded.clone(), plugins.calls.clone())),
            });
        let services = match startup.outside.observer() {
            Some(observer) => services.with_observer(Arc::clone(observer)),
            None => services,
        };
        let runtime = ScriptRuntime { engine, scripts, services };
        let events = EventScripts::new(runtime.clone(), events.clone(), db.clone());
        let dry_runs = Semaphore::new(MAX_DRY_RUNS);
        let recorded = std::sync::Mutex::new(Some(recorded));
        let setups = Mutex::default();
        Ok(Self { runtime, web, events, jobs, dry_runs, setups, views, profiles, recorder, recorded })
    }

    /// The workers that run background jobs.
    pub(super) fn workers(&self, app: &super::App) -> Workers {
        Workers {
            db: app.db.clone(),
            runtime: self.runtime.clone(),
            events: app.events.clone(),
            event_scripts: self.events.clone(),
            writer: app.stream.writer(),
            clock: app.clock.clone(),
            random: app.random.clone(),
            queue: self.jobs.clone(),
            permits: worker::pool(app.config.scripts.job_workers),
        }
    }

    /// Starts the jobs of schedules.
    pub(super) fn scheduler(&self, app: &super::App) -> Scheduler {
        Scheduler {
            db: app.db.clone(),
            scripts: Arc::clone(&self.runtime.scripts),
            queue: self.jobs.clone(),
            events: app.events.clone(),
            clock: app.clock.clone(),
            did: app.service_identity.did(),
        }
    }
}

/// The key that signs records, under the DID of the instance.
pub(super) async fn attestation(startup: &Startup) -> Result<Attestation, StartError> {
    let Startup { core: Core { db, sealing, random, clock, .. }, config, identity, .. } = startup;
    let key_id = format!("{}#attestation", identity.did);
    let signature_type = format!("{}.attestation", config.auth.service_namespace);
    let names = (key_id, signature_type);
    Ok(Attestation::load(&config.attestation, names, db, sealing, random, clock).await?)
}
