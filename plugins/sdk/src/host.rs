//! The functions of the host, in the shape that plugins need most often.

/// Lines for the operator.
pub mod log {
    pub use crate::bindings::imports::belvedere::plugin::log::{Level, write};

    pub fn debug(message: &str) {
        write(Level::Debug, message, None);
    }

    pub fn info(message: &str) {
        write(Level::Info, message, None);
    }

    pub fn warn(message: &str) {
        write(Level::Warn, message, None);
    }

    pub fn error(message: &str) {
        write(Level::Error, message, None);
    }
}

/// The time, and randomness that is fit for keys.
pub mod clock {
    pub use crate::bindings::imports::belvedere::plugin::clock::{now_ms, random};
}

/// The plugin's own secrets, which the operator sets.
pub mod secrets {
    pub use crate::bindings::imports::belvedere::plugin::secrets::get;

    use crate::Fault;

    /// The secret `name`, without the prefix `PLUGIN_<ID>_`.
    ///
    /// # Errors
    /// `internal` when the operator has not set it.
    pub fn required(name: &str) -> Result<String, Fault> {
        get(name).ok_or_else(|| Fault::internal(format!("the operator has not set the secret {name}")))
    }
}

/// Small values that outlive a call.
pub mod kv {
    pub use crate::bindings::imports::belvedere::plugin::kv::{delete, get, set};
}

/// Finds records in the index.
pub mod lookup {
    use serde_json::Value;

    use crate::bindings::imports::belvedere::plugin::lookup;
    use crate::{Fault, StrongRef};

    /// The first record of the collection whose field at `path` equals `value`.
    pub fn find(collection: &str, path: &str, value: &Value) -> Result<Option<StrongRef>, Fault> {
        lookup::find(collection, path, &value.to_string())
    }
}
