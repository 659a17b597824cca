//! Applications without a network: for tests of scripts, without background work, and for `belvedere dev`.

use std::fmt;
use std::sync::Arc;

use super::{App, StartError};
use belvedere_base::clock::Clock;
use belvedere_base::lifecycle::Lifecycle;
use belvedere_base::random::Random;
use belvedere_instance::config::Config;
use belvedere_instance::pds::Sessions;
use belvedere_scripting::scripts::services::PluginCalls;
use belvedere_scripting::scripts::{Engine, LogSink, RunObserver, ScriptRegistry, Xrpc};
use belvedere_storage::store::StoreError;
use belvedere_web::net::StandIn;

/// Jobs that run one after the other: more only come of jobs that queue each other for ever.
const MAX_QUEUED_JOBS: usize = 1_000;

/// The parts that stand in for what is outside of the process, and those that several applications share.
#[derive(Clone)]
pub struct StandIns {
    pub clock: Clock,
    pub random: Random,
    pub network: Arc<dyn StandIn>,
    /// Functions of plugins.
    pub plugins: Arc<dyn PluginCalls>,
    /// The sessions with users' PDSs.
    pub sessions: Sessions,
    /// Receives the log lines of scripts.
    pub log: Arc<dyn LogSink>,
    /// Receives the runs of scripts.
    pub observer: Arc<dyn RunObserver>,
    pub engine: Engine,
    /// The compiled scripts: those of the database that are among them are not compiled again.
    pub scripts: Arc<ScriptRegistry>,
}

impl fmt::Debug for Development {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Development")
    }
}

impl fmt::Debug for StandIns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StandIns")
    }
}

/// The parts of an application under development that stand in for what is outside of the process.
#[derive(Clone)]
pub struct Development {
    pub network: Arc<dyn StandIn>,
    /// Receives the runs of scripts.
    pub observer: Arc<dyn RunObserver>,
    pub engine: Engine,
}

/// The parts that an application does not make itself.
#[derive(Clone)]
pub(super) enum Outside {
    Server,
    Development(Development),
    Embedded(StandIns),
}

impl Outside {
    /// Those of an application for tests of scripts.
    pub(super) fn embedded(&self) -> Option<&StandIns> {
        match self {
            Self::Embedded(stand_ins) => Some(stand_ins),
            Self::Server | Self::Development(_) => None,
        }
    }

    pub(super) fn is_development(&self) -> bool {
        matches!(self, Self::Development(_))
    }

    pub(super) fn observer(&self) -> Option<&Arc<dyn RunObserver>> {
        match self {
            Self::Server => None,
            Self::Development(parts) => Some(&parts.observer),
            Self::Embedded(stand_ins) => Some(&stand_ins.observer),
        }
    }
}

impl App {
    /// Starts an application as [`App::start`] does, without a network: the stand-in answers its requests. Only the streams of
    /// the configuration are followed by a connection. Every caller gets the failures of scripts.
    ///
    /// # Errors
    /// The error names what is missing.
    pub async fn develop(
        config: Config,
        port: u16,
        lifecycle: Lifecycle,
        xrpc: Arc<dyn Xrpc>,
        parts: Development,
    ) -> Result<Arc<Self>, StartError> {
        let outside = Outside::Development(parts);
        let (app, followers) = Box::pin(Self::open(config, port, lifecycle, xrpc, outside)).await?;
        app.start_sweeps();
        app.start_followers(followers);
        Ok(app)
    }

    /// Opens an application on the database of the configuration. It has no workers and no periodic work, and opens no
    /// connection but those to its database.
    ///
    /// # Errors
    /// The error names what is missing.
    pub async fn embed(
        config: Config,
        lifecycle: Lifecycle,
        xrpc: Arc<dyn Xrpc>,
        stand_ins: StandIns,
    ) -> Result<Arc<Self>, StartError> {
        let (app, _followers) =
            Box::pin(Self::open(config, 0, lifecycle, xrpc, Outside::Embedded(stand_ins))).await?;
        Ok(app)
    }

    /// Runs the jobs that are queued. Returns how many.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn run_queued_jobs(&self) -> Result<usize, StoreError> {
        Box::pin(self.scripting.workers(self).run_queued(MAX_QUEUED_JOBS)).await
    }

    /// Ends an embedded application: what is written to the index is stored.
    pub async fn close(&self) {
        self.lifecycle.drain.cancel();
        self.stream.finish().await;
        self.tasks.close();
        self.tasks.wait().await;
        self.events.flush().await;
        self.repos.detach();
        self.db.close().await;
    }
}
