//! Stores permissioned spaces: their members, the records of each author with a verifiable state, and what their hosts exchange.
//!
//! A space is looked up by its address and has a [`SpaceId`] from then on. Every read of records names the space and the
//! author, or says that it is about all authors. No function here decides who may read: callers decide, and then read
//! (`docs/adr/0111-spaces-have-tables-of-their-own.md`).

mod attempts;
mod columns;
pub mod copies;
pub mod counts;
pub mod credentials;
pub mod deletion;
pub mod delegation;
pub mod deliveries;
pub mod follows;
pub mod inspections;
pub mod invites;
pub mod lists;
pub mod members;
pub mod oplog;
mod page_bytes;
pub mod records;
pub mod registrations;
pub mod repos;
mod revs;
pub mod settings;
pub mod space;
mod transaction;
pub mod writers;
pub mod writes;

pub use columns::SpaceId;
