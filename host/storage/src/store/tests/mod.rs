//! The store on both databases.

/// Turns each test function into two tests: `name::sqlite` and `name::postgres`.
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        $(mod $name {
            #[tokio::test]
            async fn sqlite() {
                super::$name($crate::store::testing::sqlite().await).await;
            }

            #[tokio::test]
            async fn postgres() {
                super::$name($crate::store::testing::postgres().await).await;
            }
        })*
    };
}

mod accounts;
mod admin;
mod alerts;
mod api_clients;
mod app_push;
mod apply;
mod backfill;
mod backlinks;
mod below;
mod bounds;
mod catch_up;
mod counts;
mod counts_model;
mod deadlock;
mod domains;
mod event_plans;
mod events;
mod field_index_builds;
mod field_indexes;
mod filter_model;
mod fixtures;
mod foreign;
mod group;
mod identities;
mod in_place;
mod instance_oauth_keys;
mod invalid;
mod issued_labels;
mod jobs;
mod label_versions;
mod labels;
mod large;
mod lease;
mod lexicons;
mod links;
mod metric_history;
mod migrations;
mod model;
mod moderation;
mod moderation_plans;
mod oauth_states;
mod older;
mod paging;
mod partition_migration;
mod partitions;
mod plans;
mod plugins;
mod plugin_values;
mod poison;
mod query;
mod record_changes;
mod related;
mod revocations;
mod scans;
mod schedules;
mod script_recordings;
mod script_sql;
mod search;
mod shard_splits;
mod shards;
mod service_identity;
mod sort;
mod spaces;
mod stale;
mod texts;
mod timeline;
mod tls;
mod users;
