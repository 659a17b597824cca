//! `/admin/api-clients/{id}/usage`: what an application calls, and what is left of its rate limit.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::access::Admin;
use crate::access::client_usage::{Calls, HOURS};
use crate::api::answer::{Json, JsonResult};
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_storage::store::api_clients;
use belvedere_web::http::{Error, Request};

#[derive(Debug, Serialize, JsonSchema)]
pub struct ClientUsage {
    /// The last call of a method, to the minute. Null before the first.
    last_used_at: Option<Timestamp>,
    /// The rate limit and what is left of it, on the host that answers. Null for an inactive application.
    bucket: Option<BucketView>,
    /// The bucket of the application that registered this one, to which calls are charged too.
    parent_bucket: Option<BucketView>,
    /// The hours that `methods` counts, since the start of the server at most.
    hours: usize,
    /// Calls of the host that answers, the most called method first. `(unknown)` has those of methods without a lexicon
    /// here, and `(other)` those beyond the number that is counted.
    methods: Vec<MethodCalls>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Bucket")]
struct BucketView {
    /// Whole tokens that are left.
    tokens: u64,
    capacity: f64,
    /// Tokens that are added each second.
    refill_rate: f64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct MethodCalls {
    method: String,
    #[serde(flatten)]
    calls: Calls,
}

/// `GET /admin/api-clients/{id}/usage`: the calls of an application by method, and its buckets.
pub async fn get(app: Arc<App>, _admin: Admin, request: Request) -> JsonResult<ClientUsage> {
    let row = api_clients::get(&app.db, request.param("id")).await?;
    let row = row.ok_or_else(|| Error::not_found("api client not found"))?;
    let bucket = |id: &str| {
        let (tokens, limit) = app.access.tokens_of(id)?;
        Some(BucketView { tokens, capacity: limit.capacity, refill_rate: limit.refill_rate })
    };
    let methods = app.access.client_usage.by_method(&row.id, app.clock.now());
    Ok(Json(ClientUsage {
        last_used_at: row.last_used_at,
        bucket: bucket(&row.id),
        parent_bucket: row.parent_client_id.as_deref().and_then(bucket),
        hours: HOURS,
        methods: methods.into_iter().map(|(method, calls)| MethodCalls { method, calls }).collect(),
    }))
}
