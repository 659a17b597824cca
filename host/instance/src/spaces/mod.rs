//! Permissioned spaces: data that only its members may read (spaces.md, spaces-delta.md; docs/spaces.md).
//!
//! Every call goes through [`access`], which decides what its [`Viewer`] may see. It must pass two gates: the rules about its
//! user, and the scopes of the app that the user calls with.

mod access;
mod author_token;
mod credentials;
mod delivery;
mod elsewhere;
mod error;
mod export;
mod held_credential;
mod host_key;
mod inspection;
mod invites;
mod managing_app;
mod members;
mod notices;
mod operator;
mod reads;
mod registrations;
mod repos;
mod revocations;
mod services;
mod space;
#[cfg(test)]
mod tests;
mod upkeep;
mod viewer;
mod writes;

use std::sync::Arc;

use tokio::sync::Notify;

use crate::core::Core;
use crate::repos::Repos;
use crate::service_identity::ServiceIdentity;
use crate::settings::{SPACES_ENABLED, Settings};
use belvedere_protocol::atproto::{RecordKey, Tid};
use belvedere_web::fair_share::FairPool;

pub use credentials::IssuedToken;
pub use error::{ExchangeError, SpaceError, token_status};
pub use export::RepoExport;
pub use inspection::{Inspected, InspectedPage, InspectionRequest, Inspector, Subject};
pub use invites::{CreatedInvite, InviteRequest};
pub use members::NamedMember;
pub use notices::{MAX_REVOKED, WriteNotice};
pub use operator::Selection;
pub use reads::ListQuery;
pub use repos::OpQuery;
pub use space::{NewSpace, SpaceQuery};
pub use viewer::{Account, Delegate, Presented, Viewer};
pub use writes::{RecordWrite, WriteKind, WriteRequest, Written, WrittenRecord};

use elsewhere::HeldCredentials;
use host_key::HostKeys;
use managing_app::ManagingApps;
use services::Services;

/// Clock ids of TIDs.
const CLOCK_IDS: u64 = 1 << 10;

/// The spaces that this instance hosts, and the repos of its users in spaces of other hosts. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Spaces(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    core: Core,
    settings: Arc<Settings>,
    identity: ServiceIdentity,
    /// Calls PDSs with the sessions of authors.
    repos: Repos,
    services: Services,
    managing_apps: ManagingApps,
    exports: FairPool,
    /// Permits for attempts to deliver notices.
    deliveries: FairPool,
    /// Wakes the worker that delivers.
    queued: Notify,
    /// Credentials for spaces of other hosts.
    held: HeldCredentials,
    /// Permits for reads of other hosts.
    copies: FairPool,
    /// Wakes the worker that reads other hosts.
    changed: Notify,
    keys: HostKeys,
}

impl Spaces {
    pub fn new(core: Core, settings: Arc<Settings>, identity: ServiceIdentity, repos: Repos) -> Self {
        let services = Services::new(core.clone(), identity.clone());
        Self(Arc::new(Inner {
            managing_apps: ManagingApps::new(services.clone()),
            exports: FairPool::new("space_exports", export::EXPORTS),
            deliveries: delivery::pool(),
            queued: Notify::new(),
            held: HeldCredentials::default(),
            copies: elsewhere::pool(),
            changed: Notify::new(),
            keys: HostKeys::default(),
            core,
            settings,
            identity,
            repos,
            services,
        }))
    }

    fn core(&self) -> &Core {
        &self.0.core
    }

    /// # Errors
    /// [`SpaceError::Disabled`] while spaces are switched off.
    pub fn check_enabled(&self) -> Result<(), SpaceError> {
        if self.0.settings.flag(SPACES_ENABLED) { Ok(()) } else { Err(SpaceError::Disabled) }
    }

    /// A new TID. `offset`: the microseconds between it and the first of several.
    fn new_key(&self, offset: u64) -> Result<RecordKey, SpaceError> {
        let micros = u64::try_from(self.core().clock.now().0).unwrap_or_default() + offset;
        let clock = u16::try_from(self.core().random.u64() % CLOCK_IDS).unwrap_or_default();
        let tid = Tid::new(micros, clock).map_err(SpaceError::invalid)?;
        RecordKey::try_from(tid.to_string().as_str()).map_err(SpaceError::invalid)
    }

    fn managing_apps(&self) -> &ManagingApps {
        &self.0.managing_apps
    }
}
