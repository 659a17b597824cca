//! Everything that running stored scripts takes.

use std::sync::Arc;

use super::{Engine, ScriptRegistry, Services};

/// The engine, the stored scripts, and the services that their runs may use. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ScriptRuntime {
    pub engine: Engine,
    pub scripts: Arc<ScriptRegistry>,
    pub services: Services,
}
