//! Token buckets.

/// A bucket per API client.
#[derive(Debug, Default)]
pub struct Buckets {}
