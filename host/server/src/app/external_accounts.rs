//! The accounts that users link through plugins.

use std::sync::Arc;

use super::startup::Startup;
use belvedere_instance::keys::attestation::Attestation;
use belvedere_instance::repos::Repos;
use belvedere_scripting::plugins::accounts::{Accounts, InstalledPlugins};

pub(super) fn open(
    startup: &Startup,
    installed: InstalledPlugins,
    repos: &Repos,
    attestation: &Arc<Attestation>,
) -> Accounts {
    let (linkers, attestation) = (Arc::new(installed), Arc::clone(attestation));
    Accounts::new(startup.core.clone(), linkers, repos.clone(), attestation, startup.identity.is_loopback)
}
