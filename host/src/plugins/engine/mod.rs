//! Compiles components, and reads what they import and export.

/// Compiles components. Cheap to clone.
#[derive(Clone, Debug)]
pub struct PluginEngine;

/// A compiled component. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Component {
    /// SHA-256 of the module, in lower-case hex.
    pub sha256: String,
    pub exports: Exports,
    /// Capabilities that it imports, such as `http`.
    pub imports: Vec<&'static str>,
}

/// Which interfaces a component exports besides `describe`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exports {
    pub linking: bool,
    pub sync: bool,
    pub callable: bool,
}

/// Why a module can't be used. The text is for the operator.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct LoadError(pub String);

impl PluginEngine {
    /// Compiles a module, or loads it from the cache, and checks it against the contract.
    pub async fn load(&self, module: &[u8]) -> Result<Component, LoadError> {
        let _ = module;
        Err(LoadError("not built yet".to_owned()))
    }
}
