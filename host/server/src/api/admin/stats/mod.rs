//! `/admin/stats`: reports record counts, field indexes and the costs of scripts.

pub mod database;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_instance::lexicons::Snapshot;
use belvedere_scripting::scripts::TallySnapshot;
use belvedere_storage::query::path::Step;
use belvedere_storage::store::fields::table::{self, FieldIndex, State};
use belvedere_storage::store::records;
use belvedere_web::http::Request;

#[derive(Debug, Serialize, JsonSchema)]
pub struct Stats {
    total_records: u64,
    collections: Vec<CollectionStats>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CollectionStats {
    #[schemars(extend("format" = "nsid"))]
    collection: String,
    count: u64,
    /// Records that their lexicon rejects.
    invalid: u64,
}

/// `GET /admin/stats`: how many records the index holds, by collection.
pub async fn get(app: Arc<App>, _admin: Admin, _request: Request) -> JsonResult<Stats> {
    let counts = records::collection_counts(&app.db).await?;
    let answer = Stats {
        total_records: counts.iter().map(|counted| counted.records).sum(),
        collections: counts
            .into_iter()
            .map(|counted| CollectionStats {
                collection: counted.collection,
                count: counted.records,
                invalid: counted.invalid,
            })
            .collect(),
    };
    Ok(Json(answer))
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct FieldIndexes {
    /// Maximum number of indexes that the server creates; 0 when it creates none.
    limit: u32,
    indexes: Vec<Index>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "FieldIndex")]
struct Index {
    #[schemars(extend("format" = "nsid"))]
    collection: String,
    field: String,
    /// Whether the collection's lexicon has the field. A query for another one may have misspelt it.
    declared: bool,
    #[schemars(extend("enum" = ["filter", "sort", "search"]))]
    kind: &'static str,
    /// candidate: advised, not made.
    #[schemars(extend("enum" = ["candidate", "building", "ready", "failed"]))]
    state: &'static str,
    calls: i64,
    /// Calls that were answered without an index.
    scans: i64,
    /// Milliseconds that these took in all.
    scan_ms: f64,
    last_used_at: Timestamp,
    /// The time at which it became ready.
    built_at: Option<Timestamp>,
    /// Milliseconds that the build took.
    build_ms: Option<f64>,
    error: Option<String>,
}

/// `GET /admin/stats/indexes`: the record fields that queries use, what they cost, and the indexes created for them.
/// The most expensive first. Uses within the last seconds may not be counted yet.
pub async fn indexes(app: Arc<App>, _admin: Admin, _request: Request) -> JsonResult<FieldIndexes> {
    let entries = table::list(&app.db).await?;
    let snapshot = app.registry.snapshot();
    let indexes = entries.into_iter().map(|entry| Index::new(entry, &snapshot)).collect();
    Ok(Json(FieldIndexes { limit: app.config.database.field_index_limit, indexes }))
}

impl Index {
    fn new(entry: FieldIndex, snapshot: &Snapshot) -> Self {
        let millis = |micros: i64| micros as f64 / 1e3;
        Self {
            declared: is_declared(&entry, snapshot),
            collection: entry.collection,
            field: entry.key.path.to_string(),
            kind: entry.key.kind.as_str(),
            state: entry.state.as_str(),
            calls: entry.calls,
            scans: entry.scans,
            scan_ms: millis(entry.scan_micros),
            last_used_at: entry.last_used_at,
            built_at: (entry.state == State::Ready).then_some(entry.state_changed_at),
            build_ms: entry.build_micros.map(millis),
            error: entry.error,
        }
    }
}

/// Whether the lexicon of the entry's collection declares the first part of the field. Further parts may be in another
/// lexicon, and are taken for declared.
fn is_declared(entry: &FieldIndex, snapshot: &Snapshot) -> bool {
    let Some(Step::Key(first)) = entry.key.path.steps().first() else { return true };
    let schema = snapshot.record_schema(&entry.collection);
    let schema = schema.and_then(|text| serde_json::from_slice::<Value>(&text).ok());
    schema.is_none_or(|schema| schema["record"]["properties"].get(first).is_some())
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ScriptsStats {
    scripts: Vec<ScriptStats>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ScriptStats {
    id: String,
    /// `revision 3`, or during a rollout also `candidate of revision 3`, which has an entry of its own.
    version: Option<String>,
    runs: u64,
    failures: u64,
    /// Milliseconds of CPU time of all runs.
    cpu_ms: f64,
    fuel: u64,
    /// Milliseconds from begin to end of one run.
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    last_run_at: Option<Timestamp>,
}

/// `GET /admin/stats/scripts`: what each script has cost on this host since it was loaded. The most expensive first.
pub async fn scripts(app: Arc<App>, _admin: Admin, _request: Request) -> JsonResult<ScriptsStats> {
    let scripts = &app.scripting.runtime.scripts;
    let loaded = scripts.all();
    let versioned = |(id, tallied): (String, TallySnapshot)| {
        let version = loaded.get(&id).and_then(|script| script.version());
        (id, version, tallied)
    };
    let mut tallies: Vec<_> =
        scripts.tallies().into_iter().map(versioned).chain(scripts.candidate_tallies()).collect();
    tallies
        .sort_by(|(a_id, _, a), (b_id, _, b)| b.guest_time.cmp(&a.guest_time).then_with(|| a_id.cmp(b_id)));
    let stats = |(id, version, tallied)| ScriptStats::new(id, version, &tallied);
    let scripts = tallies.into_iter().map(stats).collect();
    Ok(Json(ScriptsStats { scripts }))
}

impl ScriptStats {
    fn new(id: String, version: Option<String>, tallied: &TallySnapshot) -> Self {
        let millis = |duration: std::time::Duration| duration.as_micros() as f64 / 1e3;
        Self {
            id,
            version,
            runs: tallied.runs,
            failures: tallied.failures,
            cpu_ms: millis(tallied.guest_time),
            fuel: tallied.fuel,
            p50_ms: tallied.p50.map(millis),
            p99_ms: tallied.p99.map(millis),
            last_run_at: tallied.last_run_at,
        }
    }
}
