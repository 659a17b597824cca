//! Methods of the service's own namespace (`SERVICE_NAMESPACE`): third parties manage their API clients, and accounts
//! that several people write for.

pub mod create_api_client;
pub mod delegation;
pub mod delete_api_client;
pub mod get_api_client;
pub mod list_api_clients;
mod view;
