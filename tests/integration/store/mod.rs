//! Tests of `belvedere::testing::store` without HTTP, on both databases.

mod accounts;
mod admin;
mod api_clients;
mod apply;
mod backlinks;
mod events;
mod field_indexes;
mod fixtures;
mod instance_keys;
mod jobs;
mod labels;
mod large;
mod lease;
mod migrations;
mod model;
mod oauth_states;
mod paging;
mod plans;
mod poison;
mod query;
mod scans;
mod script_sql;
mod search;
mod sort;
mod users;
