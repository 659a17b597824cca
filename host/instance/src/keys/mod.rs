//! Keys that the instance generates for itself, and its signatures over records.

pub mod attestation;
pub mod instance;

#[cfg(test)]
mod tests;
