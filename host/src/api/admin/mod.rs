//! `/admin/*`: endpoints for operators. Each route names its permission in the route table.

pub mod api_clients;
pub mod api_keys;
pub mod backfill;
pub mod dead_letters;
pub mod domains;
pub mod events;
pub mod feature_flags;
pub mod jobs;
pub mod labelers;
pub mod lexicons;
pub mod linked_repos;
pub mod network_lexicons;
pub mod oauth;
pub mod permissions;
pub mod plugins;
pub mod records;
pub mod script_variables;
pub mod scripts;
pub mod service_entries;
pub mod service_identity;
pub mod settings;
pub mod stats;
pub mod users;
pub mod verification_methods;
