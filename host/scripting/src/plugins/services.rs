//! The services of the server that plugins may use.

use std::fmt;
use std::sync::Arc;

use belvedere_base::clock::Clock;
use belvedere_base::random::Random;
use belvedere_instance::config::Secret;
use belvedere_instance::events::EventLog;
use belvedere_instance::keys::attestation::Attestation;
use belvedere_storage::store::Db;
use belvedere_web::net;

/// Finds a secret by the plugin's id and the secret's name without prefix.
pub type SecretSource = Arc<dyn Fn(&str, &str) -> Option<Secret<String>> + Send + Sync>;

/// Called with the id of a plugin that was paused, after the store has it.
pub type PauseListener = Arc<dyn Fn(&str) + Send + Sync>;

/// The services of a call. Cheap to clone.
#[derive(Clone)]
pub struct PluginServices {
    /// The index, the plugins' own values, and their status.
    pub db: Db,
    pub net: net::Client,
    pub clock: Clock,
    pub random: Random,
    pub events: EventLog,
    /// Signs records.
    pub attestation: Arc<Attestation>,
    pub secrets: SecretSource,
    pub on_pause: PauseListener,
}

impl PluginServices {
    /// Without secrets, and without a listener for paused plugins.
    pub fn new(
        db: Db,
        net: net::Client,
        clock: Clock,
        random: Random,
        events: EventLog,
        attestation: Arc<Attestation>,
    ) -> Self {
        let (secrets, on_pause): (SecretSource, PauseListener) = (Arc::new(|_, _| None), Arc::new(|_| {}));
        Self { db, net, clock, random, events, attestation, secrets, on_pause }
    }

    #[must_use]
    pub fn with_secrets(mut self, secrets: SecretSource) -> Self {
        self.secrets = secrets;
        self
    }

    #[must_use]
    pub fn with_pause_listener(mut self, on_pause: PauseListener) -> Self {
        self.on_pause = on_pause;
        self
    }
}

impl fmt::Debug for PluginServices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PluginServices")
    }
}
