//! Decides whether the effects of a run happen: those of an ordinary run do, a dry run reports them (`docs/adr/0104-dry-runs-report-their-effects.md`).

use belvedere_storage::store::Backend;
use belvedere_storage::store::script_sql::guard::Parsed;

use super::dry_run::{DryRun, DryRunOptions};
use super::services::Services;

/// Decides whether the effects of a run happen. A host function that changes something outside of the run matches on it.
#[derive(Clone, Debug, Default)]
pub(super) enum Effects {
    /// They happen.
    #[default]
    Real,
    /// They are added to the report of a dry run.
    Reported(DryRun),
}

impl Effects {
    /// The dry run that the run is part of.
    pub(super) fn dry_run(&self) -> Option<&DryRun> {
        match self {
            Self::Real => None,
            Self::Reported(dry_run) => Some(dry_run),
        }
    }
}

/// Whether a dry run reports the statement instead of running it. What can't be parsed fails where it would in an ordinary
/// run.
pub(super) fn writes(sql: &str, backend: Backend) -> bool {
    Parsed::new(sql, backend).is_ok_and(|parsed| !parsed.is_select())
}

impl Services {
    /// The services of a dry run. Those that can't be reported are left out, so that their functions refuse: signatures of the
    /// instance's identity, the running job, and methods ([`Self::with_xrpc`]). Other servers and the values of script
    /// variables need an option.
    #[must_use]
    pub fn for_dry_run(&self, dry_run: &DryRun) -> Self {
        let DryRunOptions { network, with_variables, .. } = dry_run.options();
        // Names each service, so that one that is added is decided on.
        Self {
            index: self.index.clone(),
            log: self.log.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            variables: if with_variables { self.variables.clone() } else { self.variables.placeholders() },
            web: self.web.clone().filter(|_| network),
            xrpc: None,
            jobs: self.jobs.clone(),
            job: None,
            resolver: self.resolver.clone().filter(|_| network),
            labels: self.labels.clone(),
            attestation: self.attestation.clone(),
            identity: None,
            repos: self.repos.clone(),
            linked_repos: self.linked_repos.clone(),
            plugins: self.plugins.clone(),
            effects: Effects::Reported(dry_run.clone()),
        }
    }
}
