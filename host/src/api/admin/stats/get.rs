//! `GET /admin/stats`: how many records the index holds, by collection.

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;

use crate::access::Admin;
use crate::app::App;
use crate::http::{Error, Request, Response, response};
use crate::store::records;

#[derive(Serialize)]
struct Answer {
    total_records: u64,
    collections: Vec<Collection>,
}

#[derive(Serialize)]
struct Collection {
    collection: String,
    count: u64,
}

pub async fn handle(app: Arc<App>, _admin: Admin, _request: Request) -> Result<Response, Error> {
    let counts = records::collection_counts(&app.db).await?;
    let answer = Answer {
        total_records: counts.iter().map(|(_, count)| count).sum(),
        collections: counts.into_iter().map(|(collection, count)| Collection { collection, count }).collect(),
    };
    Ok(response::json(StatusCode::OK, &answer))
}
