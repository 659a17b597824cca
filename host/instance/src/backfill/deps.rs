//! The services that backfills need from the rest of the server.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::core::Core;
use crate::indexing::{RecordChecker, RecordScriptRunner, WriterHandle};
use crate::settings::Settings;

/// The services of backfills besides the core. Dereferences to the core.
#[derive(Clone)]
pub struct Deps {
    pub core: Core,
    pub writer: WriterHandle,
    /// Decides about records before they are indexed.
    pub scripts: Arc<dyn RecordScriptRunner>,
    pub checker: Arc<RecordChecker>,
    pub settings: Arc<Settings>,
    /// Without a trailing slash.
    pub relay_url: String,
}

impl Deref for Deps {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

impl fmt::Debug for Deps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deps").field("relay_url", &self.relay_url).finish_non_exhaustive()
    }
}
