//! Decides which runs may change the index, and announces what they have changed.

use super::fault;
use super::state::RunState;
use crate::scripts::bindings::belvedere::script::types::Fault;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::trigger::TriggerKind;
use belvedere_web::fair_share::Tenant;

impl RunState {
    /// Refuses a function that changes what others see, in runs that everyone may cause.
    pub(super) fn may_change(&self, function: &str) -> Result<(), Fault> {
        if self.info.kind.only_reads() {
            let kind = if self.info.kind == TriggerKind::Query { "query" } else { "subscription" };
            let remedy = "changes nothing; call it in a procedure, an event or a job";
            return Err(fault::forbidden(format!("{function}: a {kind} {remedy}")));
        }
        Ok(())
    }

    /// Must be called after the run has written to a repo or to its records in the index: its reads, and the caller's next
    /// reads, see the write.
    pub(super) async fn announce_write(&self, repo: &Did) {
        let Some(services) = &self.services else { return };
        services.index.set_written();
        // The repo's owner was announced with the write.
        if self.info.caller.did.as_ref() != Some(repo) {
            self.announce_change().await;
        }
    }

    /// Must be called after the run has changed the index in another way: its reads, and the caller's next reads, see that.
    pub(super) async fn announce_change(&self) {
        let Some(services) = &self.services else { return };
        services.index.set_written();
        // Runs of the instance have no caller.
        let caller = &self.info.caller;
        let is_named = caller.did.is_some() || caller.tenant != Tenant::Instance;
        if is_named && let Some(repos) = &services.repos {
            repos.announce(&[caller.writer()]).await;
        }
    }
}
