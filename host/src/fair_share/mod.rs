//! Fair shares of everything that is shared: each resource of which there is little has one [`FairPool`], and every call
//! takes its place there in the name of its [`Tenant`].

mod pool;
mod state;
mod tenant;

pub use pool::{FairPool, Place};
pub use state::{Bounds, Full};
pub use tenant::Tenant;
