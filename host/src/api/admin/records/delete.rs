//! `DELETE /admin/records?uri=`: take one record out of the index. The repo keeps it, and a later event of the
//! stream brings it back.

use std::sync::Arc;

use http::StatusCode;

use crate::access::Admin;
use crate::api::paging;
use crate::app::App;
use crate::atproto::RecordUri;
use crate::events::Event;
use crate::http::{Error, Request, Response, response};
use crate::store::records;

pub async fn handle(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let uri = paging::required(&request, "uri")?;
    let uri = RecordUri::parse(&uri).map_err(|e| Error::bad_request(e.to_string()))?;
    if !records::delete(&app.db, &uri).await? {
        return Err(Error::not_found("record not found"));
    }
    app.events.record(Event::RecordDeleted { actor: Some(admin.did.to_string()), uri });
    Ok(response::empty(StatusCode::NO_CONTENT))
}
