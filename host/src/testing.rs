//! The parts of the rooms that integration tests, benchmarks and fuzz targets use. Not an API: it changes with the
//! rooms.

pub mod clock {
    pub use crate::clock::{Clock, Timestamp};
}
pub mod random {
    pub use crate::random::Random;
}
pub mod fair_share {
    pub use crate::fair_share::{Full, Tenant};
}
pub mod atproto {
    pub use crate::atproto::{Cid, Did, LexiconDoc, Nsid, RecordKey, RecordUri, Tid, blobs, record, scope};
}
pub mod crypto {
    pub use crate::crypto::{Algorithm, HighS, PrivateKey, SealingKey, dpop, jwk, jws, sha256};
}
pub mod trigger {
    pub use crate::trigger::Trigger;
}
pub mod net {
    pub use crate::net::{Client, OutboundPolicy, install_tls_provider};
}
pub mod query {
    pub use crate::query::{Direction, Filter, Keyset, Path, Sort, cursor, sort};
}
pub mod config {
    pub use crate::config::{Args, Secret};
}
pub mod store {
    pub use crate::store::{
        Backend, Db, Patch, StoreError, api_clients, api_keys, cursors, dpop_keys, events, fields, index,
        instance_keys, jobs, labels, lease, lexicons, oauth_states, query, records, script_sql, scripts,
        settings, users,
    };
}
pub mod identity {
    pub use crate::identity::Resolver;
}
pub mod events {
    pub use crate::events::EventLog;
}
pub mod records {
    pub use crate::records::{Page, Query, ReadError, backlinks, page, search};
}
pub mod jobs {
    pub use crate::jobs::{field_indexes, retention};
}
pub mod oauth {
    pub use crate::oauth::{Discovery, DpopClient, OwnKey};
}
pub mod keys {
    pub use crate::keys::{attestation, instance};
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
pub mod scripts {
    pub use crate::scripts::{
        Engine, EngineConfig, Index, IndexError, Invocation, Library, LogLine, LogSink, Page, Query, Row,
        Search, ServerIndex, ServerLog, Services, Variables, services,
    };
}
pub mod access {
    pub use crate::access::Clients;
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
