//! Decides when a run gets an instance and the processor, and bounds what a tenant's runs use together.

mod instance_permits;
mod lineage;
mod token_buckets;

pub(super) use instance_permits::InstancePermits;
pub use lineage::Lineage;
pub(super) use token_buckets::TokenBuckets;
