//! Fair shares of everything that is shared: each resource of which there is little has one [`FairPool`], and every call
//! takes its place there in the name of its [`Tenant`].

mod pool;
mod tenant;

pub use pool::{Bounds, FairPool, Full, Place};
pub use tenant::Tenant;
