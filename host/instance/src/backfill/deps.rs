//! The services that backfills need from the rest of the server.

use std::fmt;
use std::sync::Arc;

use crate::events::EventLog;
use crate::identity::Resolver;
use crate::indexing::{RecordChecker, RecordScriptRunner, WriterHandle};
use crate::lexicons::Registry;
use crate::settings::Settings;
use belvedere_base::clock::Clock;
use belvedere_storage::store::Db;
use belvedere_web::net::Client;

#[derive(Clone)]
pub struct Deps {
    pub db: Db,
    pub net: Client,
    pub resolver: Resolver,
    pub registry: Arc<Registry>,
    pub writer: WriterHandle,
    /// Decides about records before they are indexed.
    pub scripts: Arc<dyn RecordScriptRunner>,
    pub checker: Arc<RecordChecker>,
    pub settings: Arc<Settings>,
    pub events: EventLog,
    pub clock: Clock,
    /// Without a trailing slash.
    pub relay_url: String,
}

impl fmt::Debug for Deps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deps").field("relay_url", &self.relay_url).finish_non_exhaustive()
    }
}
