//! `/auth/*`: users log in with their PDS.

pub mod callback;
pub mod login;
pub mod logout;
pub mod me;
