//! The parts of the rooms that integration tests, benchmarks and fuzz targets use. Not an API: it changes with the rooms.

pub mod clock {
    pub use crate::clock::{Clock, Timestamp};
}
pub mod random {
    pub use crate::random::Random;
}
pub mod fair_share {
    pub use crate::fair_share::Tenant;
}
pub mod atproto {
    pub use crate::atproto::{
        Cid, Did, LexiconDoc, Nsid, RecordKey, RecordUri, RepoCar, Tid, blobs, labels, record, scope,
    };
}
pub mod crypto {
    pub use crate::crypto::{Algorithm, HighS, PrivateKey, PublicKey, SealingKey, dpop, jwk, jws, sha256};
}
pub mod trigger {
    pub use crate::trigger::Trigger;
}
pub mod net {
    pub use crate::net::{Client, OutboundPolicy, install_tls_provider};
}
pub mod query {
    pub use crate::query::{Filter, Path, cursor};
}
pub mod config {
    pub use crate::config::Secret;
}
pub mod store {
    pub use crate::store::{Backend, Db, Resources, backfill, cursors, dpop_keys, lexicons, script_sql};
}
pub mod identity {
    pub use crate::identity::Resolver;
}
pub mod events {
    pub use crate::events::EventLog;
}
pub mod oauth {
    pub use crate::oauth::{Discovery, DpopClient, OwnKeys};
}
pub mod lexicons {
    pub use crate::lexicons::{Followed, Registry};
}
pub mod indexing {
    pub use crate::indexing::{
        CURSOR_SOURCE, Deps, NoScripts, Notice, Observer, RecordScriptRunner, StreamConfig, frame, start,
    };
}
pub mod pds {
    pub use crate::pds::{
        Agent, CommitResult, Credential, PdsError, PdsPools, Registration, Session, Vault, Write, WriteAction,
    };
}
pub mod keys {
    pub use crate::keys::attestation::Attestation;
}
pub mod plugins {
    pub use crate::plugins::calls::{CallScope, Calls, RunContext};
    pub use crate::plugins::manifest::{Grants, Manifest, Permission};
    pub use crate::plugins::{
        Compiler, EngineConfig, LoadedPlugin, PluginEngine, PluginServices, PluginStatus,
    };
}
pub mod scripts {
    pub use crate::scripts::{
        Engine, EngineConfig, Index, IndexError, Invocation, Library, LogLine, LogSink, Page, Query, Row,
        ScriptRuntime, Search, ServerIndex, ServerLog, Services, Variables, services,
    };
}
pub mod event_scripts {
    pub use crate::event_scripts::EventScripts;
}
pub mod api {
    pub use crate::api::routes;
}
pub mod cli {
    pub use crate::cli::Cli;
}
