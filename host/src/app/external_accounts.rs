//! The accounts that users link through plugins.

use std::sync::Arc;

use super::ground::Ground;
use super::open::StartError;
use super::scripting;
use crate::lexicons::Registry;
use crate::plugins::accounts::{Accounts, Deps, Linkers};
use crate::repos::Repos;

pub(super) async fn open(
    ground: &Ground,
    linkers: Arc<dyn Linkers>,
    registry: &Arc<Registry>,
    repos: &Repos,
) -> Result<Accounts, StartError> {
    let Ground { db, sealing, events, clock, random, tasks, lifecycle, identity, .. } = ground;
    Ok(Accounts::new(Deps {
        db: db.clone(),
        linkers,
        sealing: sealing.clone(),
        repos: repos.clone(),
        registry: Arc::clone(registry),
        attestation: Arc::new(scripting::attestation(ground).await?),
        events: events.clone(),
        clock: clock.clone(),
        random: random.clone(),
        tasks: tasks.clone(),
        drain: lifecycle.drain.clone(),
        allow_loopback: identity.is_loopback,
    }))
}
