//! `GET /admin/script-variables`: the names, and as much of the values as tells one from another.

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;

use crate::access::Admin;
use crate::app::App;
use crate::clock::Timestamp;
use crate::http::{Error, Request, Response, response};
use crate::scripts::variables;
use crate::store::script_variables;

/// Characters of a value that its preview shows, when there are more.
const SHOWN: usize = 4;

#[derive(Serialize)]
struct VariableView {
    key: String,
    /// Null when the value can't be decrypted any more.
    preview: Option<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

pub async fn handle(app: Arc<App>, _admin: Admin, _request: Request) -> Result<Response, Error> {
    let rows = script_variables::list(&app.db).await?;
    let views: Vec<VariableView> = rows
        .into_iter()
        .map(|row| VariableView {
            preview: variables::open(&app.sealing, &row).map(|value| preview(&value)),
            key: row.key,
            created_at: row.created_at,
            updated_at: row.updated_at,
        })
        .collect();
    Ok(response::json(StatusCode::OK, &views))
}

fn preview(value: &str) -> String {
    match value.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}****", &value[..end]),
        None => "*".repeat(value.chars().count()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_never_splits_a_character() {
        for (value, shown) in [("", ""), ("abc", "***"), ("äöü€", "****"), ("äöü€x", "äöü€****")]
        {
            assert_eq!(preview(value), shown);
        }
    }
}
