//! Permissioned spaces.

mod credentials;
mod deletion;
mod fixtures;
mod follows;
mod invites;
mod members;
mod model;
mod notices;
mod reads;
mod settings;
mod synchronized;
mod tables;
mod writes;
