//! `GET /xrpc/com.atproto.server.describeServer`: public, without a client key.

use std::sync::Arc;

use super::method::rendered;
use crate::app::App;
use crate::http::{Error, Request, Response};
use crate::methods::describe_server;

pub async fn handle(app: Arc<App>, _request: Request) -> Result<Response, Error> {
    Ok(rendered(describe_server::answer(&app)))
}
