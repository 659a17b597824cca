//! The accounts that users link through plugins.

use std::sync::Arc;

use super::ground::Ground;
use belvedere_instance::keys::attestation::Attestation;
use belvedere_instance::lexicons::Registry;
use belvedere_instance::repos::Repos;
use belvedere_scripting::plugins::accounts::{Accounts, Deps, InstalledPlugins};

pub(super) fn open(
    ground: &Ground,
    installed: InstalledPlugins,
    registry: &Arc<Registry>,
    repos: &Repos,
    attestation: &Arc<Attestation>,
) -> Accounts {
    let Ground { db, sealing, events, clock, random, tasks, lifecycle, identity, .. } = ground;
    Accounts::new(Deps {
        db: db.clone(),
        linkers: Arc::new(installed),
        sealing: sealing.clone(),
        repos: repos.clone(),
        registry: Arc::clone(registry),
        attestation: Arc::clone(attestation),
        events: events.clone(),
        clock: clock.clone(),
        random: random.clone(),
        tasks: tasks.clone(),
        drain: lifecycle.drain.clone(),
        allow_loopback: identity.is_loopback,
    })
}
