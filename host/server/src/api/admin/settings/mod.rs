//! `/admin/settings`: manages the settings that operators change while the server runs.

pub mod logo;
pub mod xrpc_proxy;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::access::Admin;
use crate::api::answer::{Empty, EmptyResult, Json, JsonResult};
use crate::api::input::WithBody;
use crate::app::{App, Topic};
use belvedere_instance::events::Event;
use belvedere_instance::settings::{Source, check};
use belvedere_storage::store::{Backend, settings};
use belvedere_web::http::{Error, Request};

#[derive(Debug, Serialize, JsonSchema)]
pub struct Setting {
    key: String,
    value: String,
    source: Source,
}

/// `GET /admin/settings`: every setting that has a value, and where it comes from.
pub async fn list(app: Arc<App>, _admin: Admin, _request: Request) -> JsonResult<Vec<Setting>> {
    // Another host may have just changed a setting.
    app.reload(&Topic::Settings).await?;
    let settings = app.settings.list().into_iter();
    Ok(Json(settings.map(|(key, value, source)| Setting { key, value, source }).collect()))
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct DbInfo {
    backend: Backend,
    server_max_connections: Option<i64>,
    main_pool_size: u32,
    /// Always 0: backfill has no pool of its own.
    backfill_pool_size: u32,
    /// The database server allows fewer connections than the pool may open: lower DATABASE_MAX_CONNECTIONS.
    restart_recommended: bool,
}

/// `GET /admin/settings/db-info`: how the database is connected.
pub async fn db_info(app: Arc<App>, _admin: Admin, _request: Request) -> JsonResult<DbInfo> {
    let server_max_connections = app.db.server_max_connections().await?;
    let main_pool_size = app.db.max_connections();
    let info = DbInfo {
        backend: app.db.backend(),
        server_max_connections,
        main_pool_size,
        backfill_pool_size: 0,
        restart_recommended: server_max_connections.is_some_and(|max| i64::from(main_pool_size) > max),
    };
    Ok(Json(info))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct SettingValue {
    value: String,
}

/// `PUT /admin/settings/{key}`: stores a value, which overrides the environment's.
pub async fn put(app: Arc<App>, admin: Admin, request: WithBody<SettingValue>) -> EmptyResult {
    let (key, SettingValue { value }) = (request.param("key").to_owned(), request.json()?);
    check(&key, &value).map_err(|refused| Error::bad_request(refused.to_string()))?;
    settings::set(&app.db, &key, &value, app.clock.now()).await?;
    app.changed(Topic::Settings).await?;
    app.events.record(Event::SettingUpdated {
        actor: admin.did.to_string(),
        key,
        detail: json!({ "value": value }),
    });
    Ok(Empty)
}

/// `DELETE /admin/settings/{key}`: removes the stored value: the environment's applies again. 404 when none is stored.
pub async fn delete(app: Arc<App>, admin: Admin, request: Request) -> EmptyResult {
    let key = request.param("key").to_owned();
    if !settings::delete(&app.db, &key).await? {
        return Err(Error::not_found("setting not found"));
    }
    app.changed(Topic::Settings).await?;
    app.events.record(Event::SettingDeleted { actor: admin.did.to_string(), key });
    Ok(Empty)
}
