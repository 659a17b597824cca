//! The route table: every path of the server, one line a route, with its access rule.
//!
//! A route is made by [`Route::public`], [`Route::page`], [`Route::admin`], [`Route::super_user`], [`Route::xrpc`],
//! [`Route::management`], [`Route::application`], [`Route::named`], [`Route::account`]
//! or [`Route::session_access`], and the type of the handler follows:
//! an admin handler takes an [`Admin`](crate::access::Admin), which only a permission check makes. So a route without a
//! rule does not compile, and a public one names its [limit](Limit). XRPC methods are looked up in the lexicon
//! registry, not here.

use std::sync::Arc;

use http::Method;

use super::admin::lexicons::uploads::MAX_BYTES as MAX_LEXICONS;
use super::admin::plugins::MAX_UPLOAD as MAX_PLUGIN;
use super::admin::push::MAX_PUSH;
use super::route::{Route, RouteTable};
use super::{
    admin, auth, config, dashboard, external_auth, health, link, oauth, openapi, settings, setup,
    view_schema, well_known, xrpc,
};
use crate::access::{Permission as P, PublicLimit as Limit};
use crate::app::App;
use belvedere_instance::settings::logo;
use belvedere_web::http::router::{InvalidRoute, Router};

const GET: Method = Method::GET;
const POST: Method = Method::POST;
const PUT: Method = Method::PUT;
const PATCH: Method = Method::PATCH;
const DELETE: Method = Method::DELETE;

pub(super) fn table() -> RouteTable {
    let mut table = always();
    table.extend(of_spaces().into_iter().map(Route::of_spaces));
    table
}

#[rustfmt::skip] // one line a route
fn always() -> RouteTable {
    vec![
        Route::public(&Limit::FREE, GET, "/health", health::health),
        Route::public(&Limit::FREE, GET, "/livez", health::livez),
        Route::public(&Limit::PROBE, GET, "/readyz", health::readyz),

        Route::public(&Limit::PAGE, GET, "/config", config::handle),
        Route::public(&Limit::PAGE, GET, "/oauth-client-metadata.json", well_known::client_metadata),
        Route::public(&Limit::PAGE, GET, "/.well-known/did.json", well_known::did_document),
        Route::public(&Limit::LOGIN, GET, "/auth/login", auth::login::handle),
        Route::page(&Limit::CALLBACK, GET, "/auth/callback", auth::callback::handle),
        Route::public(&Limit::PAGE, GET, "/auth/linked-repo/info", auth::linked_repo::info),
        Route::page(&Limit::LOGIN, GET, "/auth/linked-repo/start", auth::linked_repo::start),
        Route::public(&Limit::PAGE, GET, "/auth/me", auth::me::handle),
        Route::public(&Limit::PAGE, POST, "/auth/logout", auth::logout),
        Route::public(&Limit::PAGE, GET, "/auth/sessions", auth::sessions::list),
        Route::public(&Limit::PAGE, DELETE, "/auth/sessions", auth::sessions::delete_others),
        Route::public(&Limit::PAGE, DELETE, "/auth/sessions/{id}", auth::sessions::delete),

        Route::page(&Limit::PAGE, GET, "/link/start", link::start),
        Route::page(&Limit::PAGE, GET, "/link/result", link::result),
        Route::page(&Limit::PAGE, GET, "/", dashboard::to_dashboard),
        Route::page(&Limit::PAGE, GET, "/dashboard", dashboard::to_dashboard),
        Route::page(&Limit::PAGE, GET, "/dashboard/", dashboard::index),
        Route::page(&Limit::PAGE, GET, "/dashboard/{file}", dashboard::file),
        Route::page(&Limit::PAGE, GET, "/dashboard/assets/{file}", dashboard::asset),
        Route::page(&Limit::PAGE, GET, "/login", dashboard::login),

        Route::public(&Limit::PAGE, GET, "/api/setup/status", setup::status),
        Route::admin(POST, "/api/setup/identity", P::SettingsManage, setup::identity::choose),
        Route::admin(GET, "/api/setup/rotation-key", P::SettingsManage, setup::identity::rotation_key),
        Route::admin(POST, "/api/setup/plc/register", P::SettingsManage, setup::plc::register),
        Route::admin(POST, "/api/setup/plc/request", P::SettingsManage, setup::plc::request),
        Route::admin(POST, "/api/setup/plc/submit", P::SettingsManage, setup::plc::submit),
        Route::public(&Limit::CALLBACK, POST, "/api/setup/attach-auth/confirm", setup::attach_auth::confirm),
        Route::admin(GET, "/api/setup/resolve", P::SettingsManage, setup::resolve::handle),
        Route::admin(POST, "/api/setup/complete", P::SettingsManage, setup::complete),

        Route::public(&Limit::PICTURE, GET, "/settings/logo", settings::logo),
        Route::public(&Limit::PAGE, GET, "/view.schema.json", view_schema::handle),

        Route::public(&Limit::PAGE, GET, "/xrpc/com.atproto.server.describeServer", xrpc::method::describe_server),
        Route::xrpc(GET, "/xrpc/app.bsky.actor.getProfile", xrpc::method::get_profile),
        Route::xrpc_upload(POST, "/xrpc/com.atproto.repo.uploadBlob", xrpc::upload_blob::handle),
        Route::management(GET, "listApiClients", xrpc::service::list_api_clients),
        Route::management(GET, "getApiClient", xrpc::service::get_api_client),
        Route::management(POST, "createApiClient", xrpc::service::create_api_client),
        Route::management(POST, "deleteApiClient", xrpc::service::delete_api_client),
        Route::management(POST, "delegation.linkAccount", xrpc::service::delegation::link_account),
        Route::management(POST, "delegation.unlinkAccount", xrpc::service::delegation::unlink_account),
        Route::management(POST, "delegation.addDelegate", xrpc::service::delegation::add_delegate),
        Route::management(POST, "delegation.removeDelegate", xrpc::service::delegation::remove_delegate),
        Route::management(POST, "createTicket", xrpc::service::create_ticket),
        Route::management(GET, "delegation.listAccounts", xrpc::service::delegation::list_accounts),
        Route::management(GET, "delegation.getAccount", xrpc::service::delegation::get_account),
        Route::management(GET, "delegation.listDelegates", xrpc::service::delegation::list_delegates),
        Route::xrpc(GET, "/xrpc/{nsid}", xrpc::method::query),
        Route::xrpc(POST, "/xrpc/{nsid}", xrpc::method::procedure),

        Route::application(POST, "/oauth/dpop-keys", oauth::dpop_keys::handle),
        Route::application(POST, "/oauth/sessions", oauth::sessions::create::handle),
        Route::named(POST, "/oauth/client-assertion", oauth::client_assertion::handle),
        Route::public(&Limit::PAGE, GET, "/oauth/clients/{id}/jwks.json", oauth::clients::jwks),
        Route::session_access(GET, "/oauth/sessions/{did}", oauth::sessions::get),
        Route::session_access(DELETE, "/oauth/sessions/{did}", oauth::sessions::delete),
        Route::session_access(GET, "/oauth/sessions/{did}/devices", oauth::sessions::devices::list),
        Route::session_access(DELETE, "/oauth/sessions/{did}/devices/{session_id}", oauth::sessions::devices::delete),

        Route::public(&Limit::PAGE, GET, "/external-auth/providers", external_auth::providers::handle),
        Route::account(GET, "/external-auth/accounts", external_auth::accounts::handle),
        Route::account(GET, "/external-auth/{plugin}/authorize", external_auth::authorize::handle),
        Route::page(&Limit::PAGE, GET, "/external-auth/{plugin}/start", external_auth::start::page),
        Route::page(&Limit::CALLBACK, POST, "/external-auth/{plugin}/start", external_auth::start::consent),
        Route::page(&Limit::CALLBACK, GET, "/external-auth/{plugin}/callback", external_auth::callback::handle),
        Route::account(POST, "/external-auth/{plugin}/connect", external_auth::connect::handle),
        Route::account(POST, "/external-auth/{plugin}/sync", external_auth::sync::handle),
        Route::account(POST, "/external-auth/{plugin}/refresh", external_auth::refresh::handle),
        Route::account(POST, "/external-auth/{plugin}/unlink", external_auth::unlink::handle),

        Route::admin(GET, "/admin/openapi.json", P::StatsRead, openapi::get),

        Route::admin(GET, "/admin/lexicons", P::LexiconsRead, admin::lexicons::list),
        Route::admin_large(POST, "/admin/lexicons", P::LexiconsCreate, MAX_LEXICONS, admin::lexicons::create::handle),
        Route::admin_large(POST, "/admin/lexicons/preview", P::LexiconsCreate, MAX_LEXICONS, admin::lexicons::preview::handle),
        Route::admin(GET, "/admin/lexicons/{id}", P::LexiconsRead, admin::lexicons::get),
        Route::admin(DELETE, "/admin/lexicons/{id}", P::LexiconsDelete, admin::lexicons::delete),
        Route::admin(GET, "/admin/lexicons/{id}/revisions", P::LexiconsRead, admin::lexicons::revisions::list),
        Route::admin(GET, "/admin/lexicons/{id}/revisions/{revision}", P::LexiconsRead, admin::lexicons::revisions::get),
        Route::admin(GET, "/admin/lexicons/{id}/services", P::SettingsManage, admin::lexicons::services::handle),

        Route::admin(GET, "/admin/network-lexicons", P::LexiconsRead, admin::network_lexicons::list),
        Route::admin(POST, "/admin/network-lexicons", P::LexiconsCreate, admin::network_lexicons::create::handle),
        Route::admin(GET, "/admin/network-lexicons/resolve/{nsid}", P::LexiconsRead, admin::network_lexicons::resolve),
        Route::admin(DELETE, "/admin/network-lexicons/{nsid}", P::LexiconsDelete, admin::network_lexicons::delete),

        Route::admin(GET, "/admin/records", P::RecordsRead, admin::records::list),
        Route::admin(DELETE, "/admin/records", P::RecordsDelete, admin::records::delete),
        Route::admin(GET, "/admin/records/collections", P::RecordsRead, admin::records::collections),
        Route::admin(DELETE, "/admin/records/collection", [P::RecordsDelete, P::RecordsDeleteCollection], admin::records::collection),
        Route::admin(GET, "/admin/records/fields", P::RecordsRead, admin::records::fields::get),
        Route::admin(POST, "/admin/records/bulk/delete", P::RecordsDelete, admin::records::bulk::delete),
        Route::admin(GET, "/admin/records/export", P::RecordsRead, admin::records::export::get),
        Route::admin(GET, "/admin/records/why", P::RecordsRead, admin::records::why::get),
        Route::admin(GET, "/admin/accounts", P::RecordsRead, admin::accounts::profiles::list),
        Route::admin(GET, "/admin/accounts/{did}/picture", P::RecordsRead, admin::accounts::picture::get),
        Route::admin(GET, "/admin/overview", P::StatsRead, admin::overview::get),
        Route::admin(GET, "/admin/checks", P::SettingsManage, admin::checks::get),
        Route::admin(GET, "/admin/metrics", P::StatsRead, admin::metrics::get),
        Route::admin(GET, "/admin/metrics/names", P::StatsRead, admin::metrics::names),
        Route::admin(GET, "/admin/stats", P::StatsRead, admin::stats::get),
        Route::admin(GET, "/admin/stats/indexes", P::StatsRead, admin::stats::indexes),
        Route::admin(GET, "/admin/stats/scripts", P::StatsRead, admin::stats::scripts),
        Route::admin(GET, "/admin/stats/database", P::StatsRead, admin::stats::database::get),
        Route::admin(GET, "/admin/events", P::EventsRead, admin::events::list),
        Route::admin(GET, "/admin/events/count", P::EventsRead, admin::events::count),
        Route::admin(GET, "/admin/events/stream", P::EventsRead, admin::events::stream::get),
        Route::admin(POST, "/admin/events/purge", P::EventsPurge, admin::events::purge),

        Route::admin(POST, "/admin/backfill", P::BackfillCreate, admin::backfill::create),
        Route::admin(GET, "/admin/backfill/plan", P::BackfillRead, admin::backfill::plan::handle),
        Route::admin(GET, "/admin/backfill/status", P::BackfillRead, admin::backfill::status),
        Route::admin(DELETE, "/admin/backfill/details", P::BackfillCreate, admin::backfill::details::delete_all),
        Route::admin(POST, "/admin/backfill/{id}/cancel", P::BackfillCreate, admin::backfill::cancel),
        Route::admin(POST, "/admin/backfill/{id}/pause", P::BackfillCreate, admin::backfill::pause),
        Route::admin(POST, "/admin/backfill/{id}/resume", P::BackfillCreate, admin::backfill::resume),
        Route::admin(GET, "/admin/backfill/{id}/repos", P::BackfillRead, admin::backfill::details::repos),
        Route::admin(GET, "/admin/backfill/{id}/pds-summary", P::BackfillRead, admin::backfill::details::pds_summary),
        Route::admin(GET, "/admin/backfill/{id}/errors", P::BackfillRead, admin::backfill::failures::list),
        Route::admin(POST, "/admin/backfill/{id}/retry-failed", P::BackfillCreate, admin::backfill::failures::retry),
        Route::admin(GET, "/admin/backfill/{id}/events", P::BackfillRead, admin::backfill::events::handle),
        Route::admin(DELETE, "/admin/backfill/{id}/details", P::BackfillCreate, admin::backfill::details::delete),

        Route::admin(GET, "/admin/dead-letters", P::DeadLettersRead, admin::dead_letters::list),
        Route::admin(GET, "/admin/dead-letters/count", P::DeadLettersRead, admin::dead_letters::count),
        Route::admin(GET, "/admin/dead-letters/{id}", P::DeadLettersRead, admin::dead_letters::get),
        Route::admin(POST, "/admin/dead-letters/{id}/dismiss", P::DeadLettersManage, admin::dead_letters::dismiss),
        Route::admin(POST, "/admin/dead-letters/{id}/retry", P::DeadLettersManage, admin::dead_letters::retry),
        Route::admin(POST, "/admin/dead-letters/{id}/reindex", P::DeadLettersManage, admin::dead_letters::reindex),
        Route::admin(POST, "/admin/dead-letters/bulk/dismiss", P::DeadLettersManage, admin::dead_letters::bulk::dismiss),
        Route::admin(POST, "/admin/dead-letters/bulk/retry", P::DeadLettersManage, admin::dead_letters::bulk::retry),
        Route::admin(POST, "/admin/dead-letters/bulk/reindex", P::DeadLettersManage, admin::dead_letters::bulk::reindex),

        Route::admin(GET, "/admin/jobs", P::JobsRead, admin::jobs::list),
        Route::admin(POST, "/admin/jobs", P::JobsCreate, admin::jobs::create),
        Route::admin(GET, "/admin/jobs/{id}", P::JobsRead, admin::jobs::get),
        Route::admin(POST, "/admin/jobs/{id}/cancel", P::JobsManage, admin::jobs::cancel),
        Route::admin(POST, "/admin/jobs/{id}/pause", P::JobsManage, admin::jobs::pause),
        Route::admin(POST, "/admin/jobs/{id}/resume", P::JobsManage, admin::jobs::resume),

        Route::admin(POST, "/admin/sql", P::ScriptsManage, admin::sql::handle),
        Route::admin(GET, "/admin/sql/tables", P::ScriptsManage, admin::sql::tables),

        Route::admin(GET, "/admin/schedules", P::ScriptsRead, admin::schedules::list),

        Route::admin(GET, "/admin/scripts", P::ScriptsRead, admin::scripts::list),
        Route::admin(POST, "/admin/scripts", P::ScriptsManage, admin::scripts::create),
        Route::admin(POST, "/admin/scripts/check", P::ScriptsManage, admin::scripts::check::handle),
        Route::admin(POST, "/admin/scripts/dry-run", P::ScriptsManage, admin::scripts::dry_run::handle),
        Route::admin(POST, "/admin/scripts/explain", P::ScriptsManage, admin::scripts::view::explain),
        Route::admin(POST, "/admin/scripts/reindex", P::ScriptsManage, admin::scripts::reindex::handle),
        Route::admin(GET, "/admin/scripts/names", P::ScriptsRead, admin::scripts::names),
        Route::admin(GET, "/admin/scripts/types", P::ScriptsRead, admin::scripts::types::handle),
        Route::admin(GET, "/admin/scripts/deleted", P::ScriptsRead, admin::scripts::revisions::deleted),
        Route::admin(GET, "/admin/scripts/{id}", P::ScriptsRead, admin::scripts::get),
        Route::admin(PATCH, "/admin/scripts/{id}", P::ScriptsManage, admin::scripts::update),
        Route::admin(DELETE, "/admin/scripts/{id}", P::ScriptsManage, admin::scripts::delete),
        Route::admin(GET, "/admin/scripts/{id}/profile", P::ScriptsRead, admin::scripts::profile::handle),
        Route::admin(GET, "/admin/scripts/{id}/recording", P::ScriptsRead, admin::scripts::recording::get),
        Route::admin(PUT, "/admin/scripts/{id}/recording", P::ScriptsManage, admin::scripts::recording::set),
        Route::admin(DELETE, "/admin/scripts/{id}/recording", P::ScriptsManage, admin::scripts::recording::delete),
        Route::admin(POST, "/admin/scripts/{id}/replay", P::ScriptsManage, admin::scripts::replay::handle),
        Route::admin(GET, "/admin/scripts/{id}/rollout", P::ScriptsRead, admin::scripts::rollout::get),
        Route::admin(POST, "/admin/scripts/{id}/rollout", P::ScriptsManage, admin::scripts::rollout::start),
        Route::admin(PUT, "/admin/scripts/{id}/rollout", P::ScriptsManage, admin::scripts::rollout::change),
        Route::admin(DELETE, "/admin/scripts/{id}/rollout", P::ScriptsManage, admin::scripts::rollout::end),
        Route::admin(POST, "/admin/scripts/{id}/rollout/promote", P::ScriptsManage, admin::scripts::rollout::promote),
        Route::admin(GET, "/admin/scripts/{id}/revisions", P::ScriptsRead, admin::scripts::revisions::list),
        Route::admin(GET, "/admin/scripts/{id}/revisions/{revision}", P::ScriptsRead, admin::scripts::revisions::get),

        Route::admin_large(POST, "/admin/push", P::ScriptsManage, MAX_PUSH, admin::push::handle),
        Route::admin(GET, "/admin/apps", [P::LexiconsRead, P::ScriptsRead, P::StatsRead], admin::apps::list),
        Route::admin(GET, "/admin/apps/{app}", [P::LexiconsRead, P::ScriptsRead, P::StatsRead], admin::apps::get),
        Route::admin(GET, "/admin/export", [P::LexiconsRead, P::ScriptsRead, P::SettingsManage], admin::export::handle),

        Route::admin(GET, "/admin/settings", P::SettingsManage, admin::settings::list),
        Route::admin(GET, "/admin/settings/db-info", P::SettingsManage, admin::settings::db_info),
        Route::admin(PUT, "/admin/settings/{key}", P::SettingsManage, admin::settings::put),
        Route::admin(DELETE, "/admin/settings/{key}", P::SettingsManage, admin::settings::delete),
        Route::admin_upload(PUT, "/admin/settings/logo", P::SettingsManage, logo::MAX_BYTES, admin::settings::logo::put),
        Route::admin(DELETE, "/admin/settings/logo", P::SettingsManage, admin::settings::logo::delete),
        Route::admin(GET, "/admin/settings/xrpc-proxy", P::SettingsManage, admin::settings::xrpc_proxy::get),
        Route::admin(PUT, "/admin/settings/xrpc-proxy", P::SettingsManage, admin::settings::xrpc_proxy::put),

        Route::admin(GET, "/admin/feature-flags", P::SettingsManage, admin::feature_flags::list),
        Route::admin(GET, "/admin/oauth/instance-key", P::SettingsManage, admin::oauth::instance_key::list),
        Route::admin(POST, "/admin/oauth/instance-key/rotate", P::SettingsManage, admin::oauth::instance_key::rotate),
        Route::admin(DELETE, "/admin/oauth/instance-key/{kid}", P::SettingsManage, admin::oauth::instance_key::delete),

        Route::admin(GET, "/admin/moderation", P::ModerationRead, admin::moderation::list),
        Route::admin(POST, "/admin/moderation", P::ModerationManage, admin::moderation::create),
        Route::admin(POST, "/admin/moderation/bulk", P::ModerationManage, admin::moderation::bulk::create),
        Route::admin(GET, "/admin/moderation/{id}", P::ModerationRead, admin::moderation::get),
        Route::admin(DELETE, "/admin/moderation/{id}", P::ModerationManage, admin::moderation::lift),
        Route::admin(GET, "/admin/labels", P::ModerationRead, admin::labels::list),
        Route::admin(POST, "/admin/labels", P::ModerationManage, admin::labels::create),
        Route::admin(GET, "/admin/labelers", P::LabelersRead, admin::labelers::list),
        Route::admin(POST, "/admin/labelers", P::LabelersCreate, admin::labelers::create),
        Route::admin(PATCH, "/admin/labelers/{did}", P::LabelersCreate, admin::labelers::update),
        Route::admin(DELETE, "/admin/labelers/{did}", P::LabelersDelete, admin::labelers::delete),

        Route::admin(GET, "/admin/alerts", P::SettingsManage, admin::alerts::list),
        Route::admin(POST, "/admin/alerts", P::SettingsManage, admin::alerts::create),
        Route::admin(GET, "/admin/alerts/{id}", P::SettingsManage, admin::alerts::get),
        Route::admin(PUT, "/admin/alerts/{id}", P::SettingsManage, admin::alerts::update),
        Route::admin(DELETE, "/admin/alerts/{id}", P::SettingsManage, admin::alerts::delete),
        Route::admin(POST, "/admin/alerts/{id}/test", P::SettingsManage, admin::alerts::test::handle),

        Route::admin(GET, "/admin/domains", P::SettingsManage, admin::domains::list),
        Route::admin(POST, "/admin/domains", P::SettingsManage, admin::domains::create),
        Route::admin(DELETE, "/admin/domains/{id}", P::SettingsManage, admin::domains::delete),
        Route::admin(POST, "/admin/domains/{id}/primary", P::SettingsManage, admin::domains::primary),

        Route::admin(GET, "/admin/service-identity", P::SettingsManage, admin::service_identity::get),
        Route::admin(PUT, "/admin/service-identity", P::SettingsManage, admin::service_identity::put),
        Route::admin(GET, "/admin/verification-methods", P::SettingsManage, admin::verification_methods::list),
        Route::admin(POST, "/admin/verification-methods", P::SettingsManage, admin::verification_methods::create),
        Route::admin(DELETE, "/admin/verification-methods/{fragment_id}", P::SettingsManage, admin::verification_methods::delete),
        Route::admin(GET, "/admin/service-entries", P::SettingsManage, admin::service_entries::list),
        Route::admin(POST, "/admin/service-entries", P::SettingsManage, admin::service_entries::create),
        Route::admin(PUT, "/admin/service-entries/{id}", P::SettingsManage, admin::service_entries::update),
        Route::admin(DELETE, "/admin/service-entries/{id}", P::SettingsManage, admin::service_entries::delete),
        Route::admin(GET, "/admin/service-entries/{id}/xrpcs", P::SettingsManage, admin::service_entries::xrpcs::list),
        Route::admin(POST, "/admin/service-entries/{id}/xrpcs", P::SettingsManage, admin::service_entries::xrpcs::create),
        Route::admin(DELETE, "/admin/service-entries/{id}/xrpcs", P::SettingsManage, admin::service_entries::xrpcs::delete),
        Route::admin(POST, "/admin/service-entries/sync-plc", P::SettingsManage, admin::service_entries::sync_plc::handle),
        Route::admin(POST, "/admin/service-entries/sync-plc/request", P::SettingsManage, admin::service_entries::sync_plc::request),
        Route::admin(POST, "/admin/service-entries/sync-plc/submit", P::SettingsManage, admin::service_entries::sync_plc::submit),

        Route::admin(GET, "/admin/linked-repos", P::LinkedReposRead, admin::linked_repos::list),
        Route::admin(POST, "/admin/linked-repos", P::LinkedReposCreate, admin::linked_repos::create),
        Route::admin(PATCH, "/admin/linked-repos/{id}", P::LinkedReposCreate, admin::linked_repos::update),
        Route::admin(DELETE, "/admin/linked-repos/{id}", P::LinkedReposDelete, admin::linked_repos::delete),
        Route::admin(POST, "/admin/linked-repos/{id}/authorize", P::LinkedReposCreate, admin::linked_repos::authorize),
        Route::admin(POST, "/admin/linked-repos/{id}/invite", P::LinkedReposCreate, admin::linked_repos::invites::create),
        Route::admin(GET, "/admin/linked-repos/{id}/invites", P::LinkedReposRead, admin::linked_repos::invites::list),
        Route::admin(DELETE, "/admin/linked-repos/{id}/invites/{invite_id}", P::LinkedReposCreate, admin::linked_repos::invites::delete),

        Route::admin(GET, "/admin/plugins", P::PluginsRead, admin::plugins::list),
        Route::admin_upload(POST, "/admin/plugins", P::PluginsCreate, MAX_PLUGIN, admin::plugins::create),
        Route::admin_upload(POST, "/admin/plugins/preview", P::PluginsRead, MAX_PLUGIN, admin::plugins::preview::handle),
        Route::admin(GET, "/admin/plugins/official", P::PluginsRead, admin::plugins::official::handle),
        Route::admin(DELETE, "/admin/plugins/{id}", P::PluginsDelete, admin::plugins::delete),
        Route::admin(POST, "/admin/plugins/{id}/reload", P::PluginsCreate, admin::plugins::reload::handle),
        Route::admin(POST, "/admin/plugins/{id}/resume", P::PluginsCreate, admin::plugins::resume::handle),
        Route::admin(PUT, "/admin/plugins/{id}/grants", P::PluginsCreate, admin::plugins::grants::put),
        Route::admin(POST, "/admin/plugins/{id}/check-update", P::PluginsRead, admin::plugins::updates::handle),
        Route::admin(GET, "/admin/plugins/{id}/accounts", [P::PluginsRead, P::UsersRead], admin::plugins::accounts::list),
        Route::admin(GET, "/admin/plugins/{id}/secrets", P::PluginsRead, admin::plugins::secrets::get),
        Route::admin(PUT, "/admin/plugins/{id}/secrets", P::PluginsCreate, admin::plugins::secrets::put),

        Route::admin(GET, "/admin/script-variables", P::ScriptVariablesRead, admin::script_variables::list),
        Route::admin(POST, "/admin/script-variables", P::ScriptVariablesCreate, admin::script_variables::upsert),
        Route::admin(DELETE, "/admin/script-variables/{key}", P::ScriptVariablesDelete, admin::script_variables::delete),

        Route::admin(GET, "/admin/api-keys", P::ApiKeysRead, admin::api_keys::list),
        Route::admin(POST, "/admin/api-keys", P::ApiKeysCreate, admin::api_keys::create),
        Route::admin(DELETE, "/admin/api-keys/{id}", P::ApiKeysDelete, admin::api_keys::revoke),
        Route::admin(GET, "/admin/users", P::UsersRead, admin::users::list),
        Route::admin(POST, "/admin/users", P::UsersCreate, admin::users::create),
        Route::super_user(POST, "/admin/users/transfer-super", admin::users::transfer_super),
        Route::admin(GET, "/admin/users/{id}", P::UsersRead, admin::users::get),
        Route::admin(DELETE, "/admin/users/{id}", P::UsersDelete, admin::users::delete),
        Route::admin(PATCH, "/admin/users/{id}/permissions", P::UsersUpdate, admin::users::permissions),
        Route::admin(GET, "/admin/users/{id}/api-keys", [P::UsersRead, P::ApiKeysRead], admin::users::api_keys::list),
        Route::admin(POST, "/admin/users/{id}/api-keys", [P::UsersUpdate, P::ApiKeysCreate], admin::users::api_keys::create),
        Route::admin(GET, "/admin/users/{id}/sessions", P::UsersUpdate, admin::users::sessions::list),
        Route::admin(DELETE, "/admin/users/{id}/sessions", P::UsersUpdate, admin::users::sessions::delete_all),
        Route::admin(DELETE, "/admin/users/{id}/sessions/{session_id}", P::UsersUpdate, admin::users::sessions::delete),
        Route::admin(GET, "/admin/permissions", P::UsersRead, admin::permissions::list),

        Route::admin(GET, "/admin/api-clients", P::ApiClientsView, admin::api_clients::list),
        Route::admin(POST, "/admin/api-clients", P::ApiClientsCreate, admin::api_clients::create),
        Route::admin(GET, "/admin/api-clients/{id}", P::ApiClientsView, admin::api_clients::get),
        Route::admin(PUT, "/admin/api-clients/{id}", P::ApiClientsEdit, admin::api_clients::update),
        Route::admin(DELETE, "/admin/api-clients/{id}", P::ApiClientsDelete, admin::api_clients::delete),
        Route::admin(GET, "/admin/api-clients/{id}/usage", P::ApiClientsView, admin::api_clients::usage::get),
        Route::admin(GET, "/admin/api-clients/{id}/auth-key", P::ApiClientsView, admin::api_clients::auth_key::get),
        Route::admin(POST, "/admin/api-clients/{id}/auth-key", P::ApiClientsEdit, admin::api_clients::auth_key::create),
        Route::admin(POST, "/admin/api-clients/{id}/auth-key/recheck", P::ApiClientsEdit, admin::api_clients::auth_key::recheck),
        Route::admin(POST, "/admin/api-clients/{id}/auth-key/rotate", P::ApiClientsEdit, admin::api_clients::auth_key::rotate),
        Route::admin(DELETE, "/admin/api-clients/{id}/auth-key/{kid}", P::ApiClientsEdit, admin::api_clients::auth_key::revoke),
        Route::admin(GET, "/admin/api-clients/{id}/auth-keys", P::ApiClientsView, admin::api_clients::auth_key::list),
        Route::admin(DELETE, "/admin/api-clients/{id}/auth-keys", P::ApiClientsEdit, admin::api_clients::auth_key::revoke_all),
    ]
}

/// The routes that exist while spaces are switched on.
#[rustfmt::skip] // one line a route
fn of_spaces() -> RouteTable {
    vec![
        Route::admin(GET, "/admin/spaces", P::SpacesRead, admin::spaces::list),
        Route::admin(GET, "/admin/spaces/{did}/{type}/{skey}", P::SpacesRead, admin::spaces::space::get),
        Route::admin(PATCH, "/admin/spaces/{did}/{type}/{skey}", P::SpacesUpdate, admin::spaces::space::update),
        Route::admin(DELETE, "/admin/spaces/{did}/{type}/{skey}", P::SpacesDelete, admin::spaces::space::delete),
        Route::admin(GET, "/admin/spaces/{did}/{type}/{skey}/members", P::SpacesRead, admin::spaces::members::list),
        Route::admin(DELETE, "/admin/spaces/{did}/{type}/{skey}/members", P::SpacesManageMembers, admin::spaces::members::remove),
        Route::admin(GET, "/admin/spaces/{did}/{type}/{skey}/invites", P::SpacesRead, admin::spaces::invites::list),
        Route::admin(DELETE, "/admin/spaces/{did}/{type}/{skey}/invites/{id}", P::SpacesManageInvites, admin::spaces::invites::revoke),
        Route::admin(GET, "/admin/spaces/{did}/{type}/{skey}/registrations", P::SpacesRead, admin::spaces::registrations::list),
        Route::admin(GET, "/admin/spaces/{did}/{type}/{skey}/records", P::SpacesManageRecords, admin::spaces::records::list),
        Route::admin(GET, "/admin/spaces/inspections", P::SpacesRead, admin::spaces::inspections::list),
        Route::admin(POST, "/admin/spaces/inspections", P::SpacesManageCredentials, admin::spaces::inspections::grant),
        Route::admin(DELETE, "/admin/spaces/inspections/{id}", P::SpacesManageCredentials, admin::spaces::inspections::revoke),
        Route::admin(GET, "/admin/accounts/{did}/spaces", P::SpacesRead, admin::accounts::spaces::list),
        Route::admin(GET, "/admin/accounts/{did}/space-records", P::SpacesManageRecords, admin::accounts::space_records::list),
    ]
}

/// Every method and path of the table, for tests that walk all of it. A path without a leading slash is the name of a
/// method in the service's own namespace.
pub fn all() -> Vec<(Method, &'static str)> {
    table().iter().map(|route| (route.method().clone(), route.path())).collect()
}

/// The table, bound to the application.
///
/// # Errors
/// When two routes can't be distinguished.
pub fn router(app: &Arc<App>) -> Result<Router, InvalidRoute> {
    let mut router = Router::default();
    for route in table() {
        router.add(route.bind(app))?;
    }
    Ok(router)
}

/// Whether the server itself answers a method, at a route of its own. `namespace` is that of the service.
pub(super) fn has_method(namespace: &str, nsid: &str) -> bool {
    table().iter().any(|route| route.full_path(namespace).strip_prefix("/xrpc/") == Some(nsid))
}

#[cfg(test)]
mod tests;
