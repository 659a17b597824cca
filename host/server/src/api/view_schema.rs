//! `GET /view.schema.json`: the JSON schema of views, for editors.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;

use crate::app::App;
use belvedere_web::http::{Error, Request, Response, response};

const SCHEMA: &[u8] = include_bytes!("../../../../docs/view.schema.json");

pub async fn handle(_app: Arc<App>, _request: Request) -> Result<Response, Error> {
    Ok(response::json_bytes(StatusCode::OK, Bytes::from_static(SCHEMA)))
}

#[cfg(test)]
mod tests {
    use belvedere_scripting::views;

    const CURRENT: &str = concat!(env!("OUT_DIR"), "/view.schema.json");

    #[test]
    fn the_committed_schema_is_that_of_the_types() {
        let current = format!("{}\n", serde_json::to_string_pretty(&views::schema()).unwrap());
        if current.as_bytes() != super::SCHEMA {
            std::fs::write(CURRENT, &current).unwrap();
            panic!("docs/view.schema.json is not what the types say: cp {CURRENT} docs/");
        }
    }
}
