//! The accounts that users link through plugins.

use std::sync::Arc;

use super::ground::Ground;
use crate::keys::attestation::Attestation;
use crate::lexicons::Registry;
use crate::plugins::accounts::{Accounts, Deps, InstalledPlugins};
use crate::repos::Repos;

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
