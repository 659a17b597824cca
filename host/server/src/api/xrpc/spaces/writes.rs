//! `createRecord`, `putRecord`, `deleteRecord`, `applyWrites`.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{created, input};
use crate::app::App;
use belvedere_instance::spaces::{RecordWrite, Viewer, WriteKind, WriteRequest, Written, WrittenRecord};
use belvedere_protocol::atproto::{Cid, Did, Nsid, RecordKey};
use belvedere_protocol::spaces::SpaceUri;
use belvedere_web::http::{Error, Request, Response, response};

/// The body of the methods for one record.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OneBody {
    #[serde(deserialize_with = "input::text")]
    space: SpaceUri,
    #[serde(default, deserialize_with = "input::optional_text")]
    repo: Option<Did>,
    #[serde(deserialize_with = "input::text")]
    collection: Nsid,
    #[serde(default, deserialize_with = "input::optional_text")]
    rkey: Option<RecordKey>,
    record: Option<Map<String, Value>>,
    validate: Option<bool>,
    #[serde(default, deserialize_with = "input::optional_text")]
    swap_record: Option<Cid>,
}

impl OneBody {
    fn read(request: &Request, kind: WriteKind) -> Result<(SpaceUri, WriteRequest), Error> {
        let body: Self = input::body(request)?;
        if kind != WriteKind::Create && body.rkey.is_none() {
            return Err(input::invalid("rkey is missing"));
        }
        let record = if kind == WriteKind::Delete {
            None
        } else {
            Some(body.record.ok_or_else(|| input::invalid("record is missing"))?)
        };
        let write = RecordWrite {
            kind,
            collection: body.collection,
            rkey: body.rkey,
            record,
            swap: body.swap_record,
        };
        let (repo, validate) = (body.repo, body.validate);
        Ok((body.space, WriteRequest { repo, writes: vec![write], swap_commit: None, validate }))
    }
}

async fn one(app: &App, viewer: &Viewer, request: &Request, kind: WriteKind) -> Result<Value, Error> {
    let (uri, batch) = OneBody::read(request, kind)?;
    let written = app.spaces.write(&uri, viewer, batch).await?;
    let mut results = results(&uri, &written);
    Ok(results.pop().unwrap_or_default())
}

/// `POST createRecord`
pub async fn create(app: Arc<App>, viewer: Viewer, request: Request) -> Result<Response, Error> {
    let answer = one(&app, &viewer, &request, WriteKind::Create).await?;
    Ok(response::json(created(&request), &answer))
}

/// `POST putRecord`
pub async fn put(app: Arc<App>, viewer: Viewer, request: Request) -> Result<Response, Error> {
    let answer = one(&app, &viewer, &request, WriteKind::Put).await?;
    Ok(response::json(created(&request), &answer))
}

/// `POST deleteRecord`
pub async fn delete(app: Arc<App>, viewer: Viewer, request: Request) -> Result<Response, Error> {
    one(&app, &viewer, &request, WriteKind::Delete).await?;
    Ok(response::json(StatusCode::OK, &json!({ "success": true })))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ApplyBody {
    #[serde(deserialize_with = "input::text")]
    space: SpaceUri,
    #[serde(default, deserialize_with = "input::optional_text")]
    repo: Option<Did>,
    validate: Option<bool>,
    swap_commit: Option<String>,
    writes: Vec<WriteBody>,
}

/// A write of a batch, as a union with `$type`, or with `action`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WriteBody {
    #[serde(rename = "$type")]
    of_type: Option<String>,
    action: Option<String>,
    #[serde(deserialize_with = "input::text")]
    collection: Nsid,
    #[serde(default, deserialize_with = "input::optional_text")]
    rkey: Option<RecordKey>,
    value: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "input::optional_text")]
    swap_record: Option<Cid>,
}

impl WriteBody {
    fn read(self) -> Result<RecordWrite, Error> {
        let named = self.action.as_deref().or_else(|| self.of_type.as_deref()?.rsplit('#').next());
        let kind = match named {
            Some("create") => WriteKind::Create,
            Some("update") => WriteKind::Update,
            Some("delete") => WriteKind::Delete,
            _ => return Err(input::invalid("a write must be a create, an update or a delete")),
        };
        if kind != WriteKind::Create && self.rkey.is_none() {
            return Err(input::invalid("a write lacks its rkey"));
        }
        let record = if kind == WriteKind::Delete {
            None
        } else {
            Some(self.value.ok_or_else(|| input::invalid("a write lacks its value"))?)
        };
        let (collection, rkey, swap) = (self.collection, self.rkey, self.swap_record);
        Ok(RecordWrite { kind, collection, rkey, record, swap })
    }
}

/// `POST applyWrites`: all or nothing.
pub async fn apply(app: Arc<App>, viewer: Viewer, request: Request) -> Result<Response, Error> {
    let body: ApplyBody = input::body(&request)?;
    let writes = body.writes.into_iter().map(WriteBody::read).collect::<Result<_, _>>()?;
    let (repo, swap_commit, validate) = (body.repo, body.swap_commit, body.validate);
    let batch = WriteRequest { repo, writes, swap_commit, validate };
    let kinds: Vec<WriteKind> = batch.writes.iter().map(|write: &RecordWrite| write.kind).collect();
    let written = app.spaces.write(&body.space, &viewer, batch).await?;
    let mut results = results(&body.space, &written);
    for (result, kind) in results.iter_mut().zip(kinds) {
        let name = match kind {
            WriteKind::Create => "createResult",
            WriteKind::Put | WriteKind::Update => "updateResult",
            WriteKind::Delete => "deleteResult",
        };
        result["$type"] = format!("com.atproto.space.applyWrites#{name}").into();
    }
    let rev = written.rev.map(|rev| rev.to_string());
    Ok(response::json(StatusCode::OK, &json!({ "commit": { "rev": rev }, "results": results })))
}

/// The results of writes, in order; that of a deletion is empty.
fn results(uri: &SpaceUri, written: &Written) -> Vec<Value> {
    let view = |record: &WrittenRecord| match record.cid {
        None => json!({}),
        Some(cid) => json!({
            "uri": uri.record(written.repo.clone(), record.path.clone()).to_string(),
            "cid": cid.to_string(),
            "validationStatus": if record.is_validated { "valid" } else { "unknown" },
        }),
    };
    written.records.iter().map(view).collect()
}
