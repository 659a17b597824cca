//! The event log, which operators read through the admin API: [`Event`] lists every kind of event, [`EventLog`] records
//! events without blocking, and one background task writes them to the store in batches.

mod describe;
mod event;
mod external_accounts;
mod feed;
mod labelers;
mod log;
mod network_lexicons;
mod plugins;
mod plugin_calls;
mod query;
pub mod redact;
mod script_error;
mod service_identity;
mod stream_gap;

pub use event::Event;
pub use external_accounts::{ExternalAccountChange, ExternalAccountEvent};
pub use feed::{EventFeed, Message};
pub use labelers::LabelerEvent;
pub use log::EventLog;
pub use network_lexicons::{NetworkLexiconChange, NetworkLexiconEvent};
pub use plugin_calls::PluginCallEvent;
pub use plugins::PluginEvent;
pub use query::{EventQuery, InvalidEventQuery};
pub use script_error::ScriptError;
pub use service_identity::ServiceIdentityEvent;
pub use stream_gap::GapEvent;
