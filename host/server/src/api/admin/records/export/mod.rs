//! Exports the records of a list as a file, which is made while it is sent.

mod csv;
mod json_lines;

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, stream};
use http::header::{CONTENT_DISPOSITION, HeaderMap, HeaderValue};
use http::{StatusCode, header};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Deserialize;

use self::csv::Csv;
use super::conditions::RecordsQuery;
use super::listing::{Listing, RecordPage};
use crate::access::Admin;
use crate::api::answer::{Built, Described, Kind};
use crate::api::input::WithQuery;
use crate::api::paging::given;
use crate::app::App;
use belvedere_storage::query::PageSize;
use belvedere_web::fair_share::{Full, Permit, Tenant};
use belvedere_web::http::Error;
use belvedere_web::http::response::{self, Interrupted};

/// Time before a client whose export was refused may try again, in seconds.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("30");

#[derive(Debug, Deserialize, JsonSchema)]
pub struct ExportQuery {
    /// `csv`: a column for each field of the lexicon. `jsonl`: a JSON object a line, with the whole record.
    #[schemars(required, extend("enum" = ["csv", "jsonl"]))]
    format: Option<String>,
    /// Columns of a CSV file, separated by commas and in this order: `uri`, `cid`, `did`, `rkey`, `indexedAt`, and fields as
    /// `GET /admin/records/fields` names them, those with one of these names with `record.` before it. All if absent.
    columns: Option<String>,
    #[serde(flatten)]
    records: RecordsQuery,
}

/// A file of one of the formats.
#[derive(Debug)]
pub enum RecordFile {}

impl Described for RecordFile {
    fn kinds(schemas: &mut SchemaGenerator) -> Vec<Kind> {
        ["text/csv", "application/jsonl"]
            .map(|kind| (200, Some((kind, schemas.subschema_for::<String>()))))
            .into()
    }
}

enum Format {
    Csv(Csv),
    JsonLines,
}

/// `GET /admin/records/export`: the records of one collection that meet the conditions of `GET /admin/records`, as a file of any
/// size. The order is that of the list; a record that is indexed meanwhile is left out. `limit` does not count. The connection is
/// closed before the end of the body when the rest can't be sent.
pub async fn get(
    app: Arc<App>,
    admin: Admin,
    request: WithQuery<ExportQuery>,
) -> Result<Built<RecordFile>, Error> {
    let ExportQuery { format, columns, records } = request.parameters()?;
    let (format, columns) = (given(format.as_deref()), given(columns.as_deref()));
    let listing = Listing::read(&app, &admin, records).await?.with_limit(PageSize::RECORDS.max);
    let collection = listing.collection();
    let (format, content_type, extension) = match format.as_deref() {
        Some("csv") => {
            let mut csv = Csv::new(&app.registry.snapshot().record_fields(collection.as_str()));
            if let Some(columns) = columns {
                let chosen = csv.with_columns(columns.split(',').map(str::trim));
                csv = chosen.map_err(|invalid| Error::bad_request(invalid.to_string()))?;
            }
            (Format::Csv(csv), "text/csv; charset=utf-8; header=present", "csv")
        }
        Some("jsonl") if columns.is_some() => {
            return Err(Error::bad_request(
                "columns is for format=csv: a line of jsonl has the whole record",
            ));
        }
        Some("jsonl") => (Format::JsonLines, "application/jsonl; charset=utf-8", "jsonl"),
        _ => return Err(Error::bad_request("format must be csv or jsonl")),
    };
    let name = format!("attachment; filename=\"{collection}.{extension}\"");
    let name = HeaderValue::try_from(name).map_err(Error::internal)?;
    let tenant = Tenant::of_did(admin.did.as_str());
    let permit = app.record_exports.try_enter(&tenant).map_err(refused)?;
    // The first page is read before the answer begins, so that a query that fails at once has an error with a text.
    let first = listing.page(&app, &tenant).await?;
    let headers = request.headers().clone();
    let export = Export { app, admin, headers, tenant, listing, format, _permit: permit };
    let answer: Built<RecordFile> =
        response::download(HeaderValue::from_static(content_type), export.into_stream(first)).into();
    Ok(answer.with(CONTENT_DISPOSITION, name))
}

fn refused(full: Full) -> Error {
    let status = match full {
        Full::Tenant => StatusCode::TOO_MANY_REQUESTS,
        Full::Pool | Full::Timeout => StatusCode::SERVICE_UNAVAILABLE,
    };
    Error::new(status, "too many exports are running; wait until one has ended")
        .with_header(header::RETRY_AFTER, RETRY_SECONDS)
}

/// An export that is being sent.
struct Export {
    app: Arc<App>,
    admin: Admin,
    /// The headers of the request, which say whether the caller still may read.
    headers: HeaderMap,
    tenant: Tenant,
    listing: Listing,
    format: Format,
    _permit: Permit,
}

/// The part of an export that comes next.
enum Next {
    Page(RecordPage),
    After(String),
}

impl Export {
    fn into_stream(self, first: RecordPage) -> impl Stream<Item = Result<Bytes, Interrupted>> + Send {
        let head = match &self.format {
            Format::Csv(csv) => csv.header(),
            Format::JsonLines => Vec::new(),
        };
        stream::try_unfold((self, head, Some(Next::Page(first))), async |(mut this, mut bytes, next)| {
            let page = match next {
                None => return Ok(None),
                Some(Next::Page(page)) => page,
                Some(Next::After(cursor)) => {
                    this.listing = this.listing.after(cursor).map_err(|error| interrupted(&error.error))?;
                    this.page().await?
                }
            };
            this.write(&page, &mut bytes).map_err(|error| interrupted(&error))?;
            let next = page.cursor.map(Next::After);
            Ok(Some((Bytes::from(bytes), (this, Vec::new(), next))))
        })
    }

    async fn page(&self) -> Result<RecordPage, Interrupted> {
        if !self.app.access.still_admits(&self.admin, &self.headers).await {
            return Err(Interrupted);
        }
        self.listing.page(&self.app, &self.tenant).await.map_err(|error| {
            interrupted(&error.cause.as_ref().map_or_else(|| error.error.to_string(), ToString::to_string))
        })
    }

    fn write(&self, page: &RecordPage, bytes: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        for record in &page.records {
            match &self.format {
                Format::Csv(csv) => csv.write(bytes, record)?,
                Format::JsonLines => json_lines::write(bytes, record)?,
            }
        }
        Ok(())
    }
}

fn interrupted(error: &dyn std::fmt::Display) -> Interrupted {
    tracing::info!(%error, "an export of records ends early");
    Interrupted
}
