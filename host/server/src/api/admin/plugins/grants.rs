//! `/admin/plugins/{id}/grants`: changes what an installed plugin may do.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;

use super::failure::{self, Attempt};
use super::view::Summary;
use crate::access::Admin;
use crate::app::App;
use belvedere_instance::events::Event;
use belvedere_web::http::{Error, Request, Response, response};

#[derive(Deserialize)]
struct Body {
    granted: Vec<String>,
}

/// `PUT /admin/plugins/{id}/grants`: grants exactly the listed permissions, of those that the plugin asks for.
pub async fn put(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let row = super::find(&app, request.param("id")).await?;
    let Body { granted } = request.json()?;
    match app.plugins.installer.set_grants(&row, &granted).await {
        Ok(row) => {
            let denied = row.requested.iter().filter(|one| !row.granted.contains(one)).cloned().collect();
            app.events.record(Event::PluginGrantsUpdated {
                actor: admin.did.to_string(),
                id: row.id.clone(),
                granted: row.granted.clone(),
                denied,
            });
            Ok(response::json(StatusCode::OK, &Summary::new(&app, row)))
        }
        Err(error) => {
            failure::answer(&app, &admin, Attempt { id: Some(row.id), ..Attempt::default() }, error)
        }
    }
}
