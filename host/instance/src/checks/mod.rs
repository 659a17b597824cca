//! Checks everything that the server needs, and says what to do about each problem: for `belvedere doctor`, which runs
//! without a server, and for `GET /admin/checks` of a running one.

mod database;
mod last;
mod local;
mod network;

pub use database::{DATABASE_FIX, nodes, of_open, pending_migrations, replicas};
pub use last::LastChecks;
pub use local::{configuration, secrets};
pub use network::network;

use std::time::Duration;

/// Time limit of each check of another server, ample for a healthy one.
pub const TIME_LIMIT: Duration = Duration::from_secs(10);

/// The result of one check.
#[derive(Clone, Debug)]
pub struct Check {
    /// The kind of subject, such as `relay`.
    pub id: &'static str,
    /// The subject for people.
    pub name: String,
    /// The state, or the advice.
    pub result: Result<String, String>,
}

impl Check {
    pub fn new(id: &'static str, name: impl Into<String>, result: Result<String, String>) -> Self {
        Self { id, name: name.into(), result }
    }
}
