//! The SQL console: reads the index as `db.raw` of a script does (docs/adr/0142).

use std::sync::Arc;
use std::time::Instant;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::api::body::or_default;
use crate::api::input::WithBody;
use crate::app::App;
use belvedere_instance::events::Event;
use belvedere_storage::store::script_sql::{self, Answer, ReadableTable, ScriptSqlError};
use belvedere_web::fair_share::Tenant;
use belvedere_web::http::{Error, Request};

/// The name of the place in the error for a statement that does not read.
const PLACE: &str = "the SQL console";

/// Converts the failure of a statement: its author can mend all but those of the database itself.
fn failure(error: ScriptSqlError) -> Error {
    match error {
        ScriptSqlError::Store(error) => error.into(),
        ScriptSqlError::RoleError(_) | ScriptSqlError::InShards => Error::conflict(error.to_string()),
        other => Error::bad_request(other.to_string()),
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct SqlQuery {
    /// A SELECT of the tables that scripts have.
    sql: String,
    /// Values of `?` or `$1`: texts, numbers, booleans and nulls.
    #[serde(default, deserialize_with = "or_default")]
    params: Vec<Value>,
    /// Whether to answer the plan of the statement instead of its rows.
    #[serde(default, deserialize_with = "or_default")]
    explain: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct SqlRows {
    /// In order. Those of a result without rows may be missing.
    columns: Vec<String>,
    /// Values by column, without nulls. A plan is the column `plan`, a row for each step.
    #[schemars(with = "Vec<serde_json::Map<String, Value>>")]
    rows: Box<RawValue>,
    duration_ms: f64,
}

/// `POST /admin/sql`: runs a SELECT with the rights and limits of `db.raw`: at most 1,000 rows, 4 MiB and some seconds.
pub async fn handle(app: Arc<App>, admin: Admin, request: WithBody<SqlQuery>) -> JsonResult<SqlRows> {
    let SqlQuery { sql, params, explain } = request.json()?;
    let (db, tenant) = (&app.db, Tenant::of_did(admin.did.as_str()));
    let started = Instant::now();
    let result = if explain {
        script_sql::explain(db, &tenant, &sql, &params, PLACE).await
    } else {
        script_sql::select(db, &tenant, &sql, &params, PLACE).await
    };
    let (duration, result) = (started.elapsed(), result.map_err(failure));
    app.events.record(Event::SqlRun {
        actor: admin.did.to_string(),
        sql,
        explain,
        rows: result.as_ref().map_or(0, |answer| answer.count),
        duration,
        error: result.as_ref().err().map(|error| error.error.to_string()),
    });
    let Answer { rows, columns, .. } = result?;
    let rows = String::from_utf8(rows).map_err(Error::internal)?;
    let rows = RawValue::from_string(rows).map_err(Error::internal)?;
    Ok(Json(SqlRows { columns, rows, duration_ms: duration.as_micros() as f64 / 1e3 }))
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct SqlTables {
    /// Views of the index, then the tables of the scripts.
    tables: Vec<SqlTable>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct SqlTable {
    name: String,
    columns: Vec<String>,
    /// Whether it belongs to the scripts of this server.
    own: bool,
}

/// `GET /admin/sql/tables`: the tables that a statement can read, with their columns, as an editor proposes them.
pub async fn tables(app: Arc<App>, admin: Admin, _request: Request) -> JsonResult<SqlTables> {
    let tables = script_sql::tables(&app.db, &Tenant::of_did(admin.did.as_str())).await.map_err(failure)?;
    let view = |ReadableTable { name, columns, is_own: own }| SqlTable { name, columns, own };
    Ok(Json(SqlTables { tables: tables.into_iter().map(view).collect() }))
}
