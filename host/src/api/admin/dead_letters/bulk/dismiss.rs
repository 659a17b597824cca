//! `POST /admin/dead-letters/bulk/dismiss`

use std::sync::Arc;

use super::Work;
use crate::access::Admin;
use crate::app::App;
use crate::http::{Error, Request, Response};

pub async fn handle(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    super::each(&app, &admin, &request, Work::Dismiss).await
}
