//! Reads and checks the environment and the command line, once. There is one small struct per concern. A variable with a
//! constant default is a row ([`Setting`], [`NumberSetting`]), others are documented on their field; `--help` shows
//! both. Nothing outside this room reads the environment.
//!
//! An invalid value never falls back to a default: [`Args::check`] checks all values and reports all problems together,
//! each with its fix. An empty value counts as unset, because compose files often pass empty values.

mod attestation;
mod auth;
pub mod backfill;
mod database;
pub mod events;
mod indexing;
mod instance;
mod memory;
mod observe;
mod outbound;
mod parse;
pub mod plugins;
mod problems;
mod proxies;
mod public_url;
mod rate_limit;
pub mod scripts;
mod secret;
mod secrets;
mod server;
mod setting;
mod subscriptions;

use clap::Args as ClapArgs;

pub use attestation::{Attestation, AttestationArgs};
pub use auth::{Auth, AuthArgs};
pub use backfill::{Backfill, BackfillArgs};
pub use database::{Database, DatabaseArgs, Replicas, ScriptSql};
pub use events::{Events, EventsArgs};
pub use indexing::{Indexing, IndexingArgs, PLC};
pub use instance::{INSPECTOR, Instance, InstanceArgs};
pub use memory::{Memory, MemoryArgs};
pub use observe::{LogFormat, Observe, ObserveArgs};
pub use outbound::{Outbound, OutboundArgs};
pub use plugins::{PluginUrl, Plugins, PluginsArgs};
pub use problems::Problems;
pub use proxies::TrustedProxies;
pub use public_url::public_url;
pub use rate_limit::{RateLimit, RateLimitArgs};
pub use scripts::{Scripts, ScriptsArgs};
pub use secret::Secret;
pub use secrets::{EncryptionKey, LoadedSecrets, SecretError, Secrets, SecretsArgs};
pub use server::{Identity, Server, ServerArgs};
pub use setting::{NumberSetting, Setting};
pub use subscriptions::{Subscriptions, SubscriptionsArgs};

/// The values as given: unchecked text.
#[derive(Clone, Debug, Default, ClapArgs)]
pub struct Args {
    #[command(flatten)]
    pub server: ServerArgs,
    #[command(flatten)]
    pub instance: InstanceArgs,
    #[command(flatten)]
    pub memory: MemoryArgs,
    #[command(flatten)]
    pub database: DatabaseArgs,
    #[command(flatten)]
    pub indexing: IndexingArgs,
    #[command(flatten)]
    pub backfill: BackfillArgs,
    #[command(flatten)]
    pub auth: AuthArgs,
    #[command(flatten)]
    pub secrets: SecretsArgs,
    #[command(flatten)]
    pub attestation: AttestationArgs,
    #[command(flatten)]
    pub rate_limit: RateLimitArgs,
    #[command(flatten)]
    pub scripts: ScriptsArgs,
    #[command(flatten)]
    pub plugins: PluginsArgs,
    #[command(flatten)]
    pub events: EventsArgs,
    #[command(flatten)]
    pub subscriptions: SubscriptionsArgs,
    #[command(flatten)]
    pub outbound: OutboundArgs,
    #[command(flatten)]
    pub observe: ObserveArgs,
}

/// The checked configuration. `Debug` hides its secrets.
#[derive(Clone, Debug)]
pub struct Config {
    pub server: Server,
    pub instance: Instance,
    pub memory: Memory,
    pub database: Database,
    pub indexing: Indexing,
    pub backfill: Backfill,
    pub auth: Auth,
    pub secrets: Secrets,
    pub attestation: Attestation,
    pub rate_limit: RateLimit,
    pub scripts: Scripts,
    pub plugins: Plugins,
    pub events: Events,
    pub subscriptions: Subscriptions,
    pub outbound: Outbound,
    pub observe: Observe,
}

impl Args {
    /// Checks every value. Writes nothing: [`Secrets::load`] generates missing secrets.
    ///
    /// # Errors
    /// All problems together.
    pub fn check(self) -> Result<Config, Problems> {
        let mut problems = Problems::default();
        let server = self.server.check(&mut problems);
        let database = self.database.check(&server.data_dir, &mut problems);
        let config = Config {
            instance: self.instance.check(&mut problems),
            memory: self.memory.check(&database, &mut problems),
            database,
            indexing: self.indexing.check(&mut problems),
            backfill: self.backfill.check(&mut problems),
            auth: self.auth.check(&mut problems),
            secrets: self.secrets.check(&server.data_dir, &mut problems),
            attestation: self.attestation.check(&mut problems),
            rate_limit: self.rate_limit.check(&mut problems),
            scripts: self.scripts.check(&mut problems),
            plugins: self.plugins.check(&server.data_dir, &mut problems),
            events: self.events.check(&mut problems),
            subscriptions: self.subscriptions.check(&mut problems),
            outbound: self.outbound.check(&mut problems),
            observe: self.observe.check(&mut problems),
            server,
        };
        problems.into_result(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_set_is_a_working_configuration() {
        let config = Args::default().check().unwrap();
        assert_eq!(config.server.address().to_string(), "127.0.0.1:3000");
        assert_eq!(config.database.url, "sqlite://data/belvedere.db");
        assert_eq!(config.events.retention_days, None);
        assert!((config.rate_limit.refill_rate - 2.0).abs() < f64::EPSILON);
    }

    #[test]
    fn empty_values_count_as_unset() {
        let mut args = Args::default();
        args.server.port = Some(String::new());
        args.database.url = Some("  ".to_owned());
        args.secrets.session = Some(String::new());
        let config = args.check().unwrap();
        assert_eq!(config.server.port, 3000);
        assert_eq!(config.database.url, "sqlite://data/belvedere.db");
    }

    #[test]
    fn every_problem_is_reported_at_once() {
        let mut args = Args::default();
        args.server.port = Some("eighty".to_owned());
        args.server.public_url = Some("ftp://example.com".to_owned());
        args.database.url = Some("mysql://x".to_owned());
        args.secrets.session = Some("short".to_owned());
        args.secrets.encryption = Some("not base64!".to_owned());
        args.rate_limit.capacity = Some("0".to_owned());
        args.rate_limit.refill_rate = Some("-1".to_owned());
        args.indexing.jetstream_url = Some("https://x.test".to_owned());
        args.events.retention_days = Some("-3".to_owned());
        args.observe.log_format = Some("xml".to_owned());
        let text = args.check().unwrap_err().to_string();
        for name in [
            "PORT",
            "PUBLIC_URL",
            "DATABASE_URL",
            "SESSION_SECRET",
            "TOKEN_ENCRYPTION_KEY",
            "DEFAULT_RATE_LIMIT_CAPACITY",
            "DEFAULT_RATE_LIMIT_REFILL_RATE",
            "JETSTREAM_URL",
            "EVENT_LOG_RETENTION_DAYS",
            "LOG_FORMAT",
        ] {
            assert!(text.contains(name), "{name} is missing in:\n{text}");
        }
        assert!(!text.contains("not base64!"), "a secret is shown:\n{text}");
    }
}
