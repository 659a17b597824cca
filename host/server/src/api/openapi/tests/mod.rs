//! Makes the description, and compares it with the committed document.

mod comments;
mod document;
mod schemas;

use std::path::Path;

use self::comments::Comments;
use self::document::{document, text};
use crate::api::routes;

/// The path of a written document that differs from the committed one.
const CURRENT: &str = concat!(env!("OUT_DIR"), "/openapi.json");

#[test]
fn the_committed_document_is_current() {
    let server = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut comments = Comments::new();
    comments::read(&server.join("src/api"), &mut comments);
    let text = text(&document(&routes::table(), &comments));
    let committed = std::fs::read_to_string(server.join("../../dashboard/openapi.json")).unwrap_or_default();
    if committed != text {
        std::fs::write(CURRENT, &text).unwrap();
        panic!(
            "dashboard/openapi.json is not what the route table and the handlers say: cp {CURRENT} dashboard/, look at \
                the difference, and commit it"
        );
    }
}
