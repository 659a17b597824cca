//! `/oauth/clients/{id}`

pub mod jwks;
