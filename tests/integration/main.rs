//! Integration tests: the running server, used over HTTP, on both databases. The files mirror the URLs.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]
#![expect(unreachable_pub, reason = "shared helpers say what they offer, though no other crate sees them")]

#[path = "../support/mod.rs"]
mod support;

mod access;
mod admin;
mod annotations;
mod auth;
mod backfill;
mod backfill_command;
mod backup;
mod command_line;
mod crash;
mod dashboard;
mod dependencies;
mod dev_command;
mod diff_command;
mod docs;
mod examples;
mod external_auth;
mod fixtures;
mod full_disk;
mod health;
mod http;
mod import_command;
mod invalid_records;
mod job_command;
mod labelers;
mod language;
mod layers;
mod lexicon_command;
mod linked_repos;
mod lost_connections;
mod memory;
mod metering;
mod move_command;
mod nul;
mod oauth;
mod one_instance;
mod plugin_command;
mod push_command;
mod record_events;
mod replicas;
mod script_command;
mod script_moderation;
mod script_plugins;
mod script_tests;
mod setup;
mod several_hosts;
mod slow_readers;
mod small_disk;
mod spaces;
mod stream_faults;
mod well_known;
mod xrpc;
