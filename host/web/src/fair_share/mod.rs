//! Shares limited resources fairly between tenants. Each limited resource has a [`FairPool`] of permits, and every call
//! takes its permits on behalf of its [`Tenant`].

mod pool;
mod state;
mod tenant;

pub use pool::{FairPool, Permit};
pub use state::{Bounds, Full};
pub use tenant::Tenant;
