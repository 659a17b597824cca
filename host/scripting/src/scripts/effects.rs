//! Decides whether the effects of a run happen: those of an ordinary run do, a dry run reports them (`docs/adr/0104-dry-runs-report-their-effects.md`).

use belvedere_storage::store::Backend;
use belvedere_storage::store::script_sql::guard::Parsed;

use super::dry_run::DryRun;

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

/// Whether a dry run reports the statement instead of running it. A statement that can't be parsed fails as in an
/// ordinary run.
pub(super) fn writes(sql: &str, backend: Backend) -> bool {
    Parsed::new(sql, backend).is_ok_and(|parsed| !parsed.is_select())
}
